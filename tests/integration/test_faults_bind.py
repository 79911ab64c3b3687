# SPDX-License-Identifier: Apache-2.0
"""Everything that the API server may answer to a binding, or not answer: what kube-scheduler is
told, where the pod is in the end, and that its card is never given to two."""
import dataclasses
import json
import threading
import time
import typing

import pytest

from fake_apiserver import Fault
from follower import BIND_SECONDS, LEASE_SECONDS, TIMES, allocations, check
from support import ALLOCATED, gpu_node, percent, pod, wait_until

BINDING = r"/pods/p/binding"


def nothing(_):
    pass


def changed(edit):
    """Somebody changes the pod and our watch has not told yet."""
    return lambda api: api.change("Pod", "p", edit)


def elsewhere(stored):
    stored["spec"]["nodeName"] = "n2"
    stored["metadata"].setdefault("annotations", {})[ALLOCATED] = json.dumps(
        {"gpu": [{"minor": 0, "resources": percent(100)}]})


def deleting(stored):
    stored["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def gated(stored):
    stored["spec"]["schedulingGates"] = [{"name": "not-yet"}]


def recreated(api):
    api.delete("Pod", "p")
    api.put(pod("p", percent(100)))


@dataclasses.dataclass
class Reply:
    """A binding of pod p to node n1 meets this."""
    name: str
    fault: Fault = None
    before: typing.Callable = nothing  # what happens behind our back
    says: str = ""                     # is in the Error that kube-scheduler is told; "" = success
    node: str = None                   # where the pod is in the end
    sent: int = 1                      # bindings that go out

    def __str__(self):
        return self.name


def status(code, **more):
    return Fault(status=code, reason="Scripted", **more)


UNKNOWN = "binding: "  # whatever the sentence

REPLIES = [
    Reply("201", node="n1"),
    # Refusals, each for sure.
    Reply("409-elsewhere", before=changed(elsewhere), says='bound to node "n2"', node="n2"),
    Reply("409-uid", before=recreated, says="UID in precondition"),
    Reply("409-deleting", before=changed(deleting), says="is being deleted"),
    Reply("409-gated", before=changed(gated), says="schedulingGates"),
    Reply("404", before=lambda api: api.delete("Pod", "p"), says="HTTP 404"),
    Reply("400", status(400), says="HTTP 400"),
    Reply("401", status(401), says="HTTP 401"),
    Reply("403", status(403), says="HTTP 403"),
    Reply("422", status(422), says="HTTP 422"),
    Reply("429", status(429), says="HTTP 429"),
    Reply("429-come-back-soon", status(429, headers={"Retry-After": "1"}), node="n1", sent=2),
    Reply("429-come-back-late", status(429, headers={"Retry-After": "60"}), says="HTTP 429"),
    # It was done, and the answer does not say so: the pod does.
    Reply("409-ourselves", status(409, applied=True,
                                  message='pod p is already assigned to node "n1"'), node="n1"),
    Reply("201-of-a-proxy", Fault(status=201, body=b"{}", applied=True), node="n1"),
    # Nobody knows. What really happened is found by reading the pod.
    Reply("500-before", status(500), says=UNKNOWN),
    Reply("500-after", status(500, applied=True), says=UNKNOWN, node="n1"),
    Reply("503-after", status(503, applied=True), says=UNKNOWN, node="n1"),
    Reply("504-before", status(504), says=UNKNOWN),
    Reply("504-after", status(504, applied=True), says=UNKNOWN, node="n1"),
    Reply("web-page-before", Fault(status=200, body=b"<html>", content_type="text/html"),
          says=UNKNOWN),
    Reply("cut-before", Fault(then="reset"), says=UNKNOWN),
    Reply("cut-after", Fault(then="reset", applied=True), says=UNKNOWN, node="n1"),
    Reply("closed-before", Fault(then="close"), says=UNKNOWN),
    Reply("closed-after", Fault(then="close", applied=True), says=UNKNOWN, node="n1"),
    Reply("half-an-answer", Fault(then="half"), says=UNKNOWN, node="n1"),
    Reply("silent-before", Fault(then="silent"), says=UNKNOWN),
    Reply("silent-after", Fault(then="silent", applied=True), says=UNKNOWN, node="n1"),
    Reply("late-answer", Fault(stall_answer=BIND_SECONDS * 3), says=UNKNOWN, node="n1"),
]


def is_settled(daemon):
    return '"Unknown binding settled"' in daemon.log()


@pytest.mark.parametrize("reply", REPLIES, ids=str)
def test_an_answer_to_a_binding(api, follow, reply):
    api.put(*gpu_node("n1", 1), *gpu_node("n2", 1), pod("p", percent(100)), pod("q", percent(100)))
    daemon = follow().wait_open()
    stored, rival = daemon.pod("p"), daemon.pod("q")
    assert "n1" in daemon.filter(stored, ["n1"])["NodeNames"]
    api.silence("Pod")
    reply.before(api)
    if reply.fault:
        api.fault("POST", BINDING, reply.fault)
    problem = daemon.bind(stored, "n1")
    assert (reply.says in problem and problem) if reply.says else problem == ""
    if reply.says == UNKNOWN:
        # The card is nobody else's and the pod's binding is not sent again while it may happen.
        fits = daemon.filter(rival, ["n1"])["NodeNames"] or []
        again = daemon.bind(stored, "n1")
        if not is_settled(daemon):
            assert fits == [] and "not known yet" in again
        wait_until(lambda: is_settled(daemon), "what became of the binding is found out")
    elif reply.node != "n1":
        assert daemon.filter(rival, ["n1"])["NodeNames"] == ["n1"], "the card is given back at once"
    api.end_watches("close", "Pod")
    check(api, daemon)
    assert (api.get("Pod", "p") or {"spec": {}})["spec"].get("nodeName") == reply.node
    assert len(api.seen("POST", BINDING)) == reply.sent
    # The rival gets the card exactly when it is free.
    assert daemon.schedule("q", ["n1"]) == (None if reply.node == "n1" else "n1")
    check(api, daemon)


def test_kube_schedulers_retry_after_a_lost_reply_is_no_second_binding(api, follow):
    api.put(*gpu_node("n1", 2), pod("p", percent(100)))
    daemon = follow().wait_open()
    stored = daemon.pod("p")
    api.fault("POST", BINDING, Fault(then="reset", applied=True))
    assert daemon.bind(stored, "n1") != ""
    wait_until(lambda: daemon.bind(stored, "n1") == "", "the retry is told that it is bound")
    check(api, daemon)
    assert len(api.seen("POST", BINDING)) == 1


def test_a_pod_whose_binding_did_not_happen_is_bound_by_the_next_try(api, follow):
    api.put(*gpu_node("n1", 1), pod("p", percent(100)))
    daemon = follow().wait_open()
    api.fault("POST", BINDING, Fault(then="reset"))
    stored = daemon.pod("p")
    assert daemon.bind(stored, "n1") != ""
    wait_until(lambda: daemon.bind(stored, "n1") == "", "the next try binds it")
    check(api, daemon)
    assert len(api.seen("POST", BINDING)) == 2


def test_a_binding_that_was_cut_is_committed_late(api, follow):
    """The server had it, and took its time: until then the pod is read as not bound."""
    api.put(*gpu_node("n1", 1), pod("p", percent(100)), pod("q", percent(100)))
    times = TIMES.replace("delivery: 500ms", "delivery: 4s").replace(
        f"leaseDuration: {LEASE_SECONDS}s", "leaseDuration: 8s")
    daemon = follow(times).wait_open()
    api.silence("Pod")
    late = BIND_SECONDS + 2 # of 4, for a busy machine's timers are late, too
    api.fault("POST", BINDING, Fault(then="reset", applied_after=late))
    begun = time.monotonic()
    assert daemon.bind(daemon.pod("p"), "n1") != ""
    while time.monotonic() - begun < late + 0.5:
        assert daemon.bind(daemon.pod("q"), "n1") != ""
    wait_until(lambda: is_settled(daemon), "what became of the binding is found out")
    api.end_watches("close", "Pod")
    check(api, daemon)
    assert api.get("Pod", "p")["spec"]["nodeName"] == "n1"


def test_a_pod_that_goes_while_its_binding_is_unknown(api, follow):
    api.put(*gpu_node("n1", 1), pod("p", percent(100)), pod("q", percent(100)))
    daemon = follow().wait_open()
    api.silence("Pod")
    api.fault("POST", BINDING, Fault(then="reset", applied=True))
    assert daemon.bind(daemon.pod("p"), "n1") != ""
    api.delete("Pod", "p")
    wait_until(lambda: daemon.booked() == {}, "the card is given back")
    assert daemon.schedule("q", ["n1"]) == "n1"
    api.end_watches("close", "Pod")
    check(api, daemon)


def test_many_bindings_and_every_third_one_meets_something(api, follow):
    """Eight cards, sixteen halves and as many too many; eight binders at a time."""
    nodes = ["n1", "n2", "n3", "n4"]
    pods = [f"p-{number}" for number in range(32)]
    for name in nodes:
        api.put(*gpu_node(name, 2))
    api.put(*[pod(name, percent(50)) for name in pods])
    for fault in (Fault(then="reset", applied=True), status(500), status(429),
                  Fault(then="half"), status(504, applied=True), Fault(then="reset")):
        api.fault("POST", r"/pods/p-\d*[0369]/binding", fault, times=2)
    daemon = follow().wait_open()

    def place(own):
        for _ in range(3):
            for name in own:
                stored = daemon.pod(name)
                fits = daemon.filter(stored, nodes)["NodeNames"]
                if fits and not stored["spec"].get("nodeName"):
                    daemon.bind(stored, fits[0])

    binders = [threading.Thread(target=place, args=(pods[number::8],)) for number in range(8)]
    for binder in binders:
        binder.start()
    for binder in binders:
        binder.join()
    wait_until(lambda: "booked" not in [state for _, _, state in daemon.booked().values()],
               "nothing is left unknown")
    check(api, daemon)

    def all_taken():
        place(pods)
        return len(allocations(api)) == 16
    wait_until(all_taken, "every card is full")
    check(api, daemon)
