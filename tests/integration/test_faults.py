# SPDX-License-Identifier: Apache-2.0
"""What ails a list or a watch: the daemon says so, keeps what it knows, decides nothing before its
first complete lists, and in the end knows what the API server has."""
import http.client
import json
import statistics
import threading
import time

import pytest

from certificates import Authority
from fake_apiserver import Fault, FakeApiServer
from follower import TIMES, allocations, check
from support import (ALLOCATED, PATIENCE, VISIBLE, device, gpu_node, node, percent, pod, wait_until)

PODS = r"^/api/v1/pods\?limit"
NODES = r"^/api/v1/nodes\?limit"
WATCH_PODS = r"^/api/v1/pods\?watch"


def bound(name, place, core=50, minor=0):
    """A pod that runs since before."""
    text = json.dumps({"gpu": [{"minor": minor, "resources": percent(core)}]})
    return pod(name, percent(core), metadata={"annotations": {ALLOCATED: text}},
               spec={"nodeName": place}, status={"phase": "Running"})


# ---- the first lists ----

@pytest.mark.parametrize("fault", [
    Fault(then="reset"), Fault(then="close"), Fault(then="half"),
    Fault(status=500, reason="InternalError"), Fault(status=410, reason="Expired"),
    Fault(status=429, reason="TooManyRequests", headers={"Retry-After": "1"}),
    Fault(body=b"<html></html>", content_type="text/html"), Fault(content_type="text/plain"),
    Fault(body=b"{}"), Fault(body=b'{"kind":"PodList","items":[{"metadata":'),
], ids=["reset", "close", "half", "500", "410", "429", "html", "type", "empty", "cut"])
def test_nothing_is_decided_before_the_first_list_is_complete(api, follow, fault):
    api.put(*gpu_node("n1", 1), *[bound(f"old-{number}", "n1", 50) for number in range(2)],
            pod("p", percent(50)))
    api.fault("GET", PODS, fault, times=2)
    daemon = follow(TIMES + "reflector:\n  pageSize: 1\n")
    said = set()

    def ready():
        state, text = daemon.readiness()
        if state != 200:
            said.add(text)
            answer = daemon.post("/filter", daemon.arguments(api.get("Pod", "p"), ["n1"]))
            assert not answer.json.get("NodeNames"), "the card is full, and nobody can know yet"
        return state == 200
    wait_until(ready, "the daemon is ready")
    assert any("pods" in text for text in said), said
    assert len(api.seen("GET", PODS)) >= 2 + 3
    # Who is ready may still be on the way to lead.
    wait_until(lambda: not daemon.filter(daemon.pod("p"), ["n1"])["Error"], "it leads")
    assert daemon.filter(daemon.pod("p"), ["n1"])["NodeNames"] == []
    check(api, daemon)


def test_a_list_is_asked_for_again_no_sooner_than_told(api, follow):
    api.put(*gpu_node("n1"))
    api.fault("GET", NODES, Fault(status=429, reason="TooManyRequests",
                                  headers={"Retry-After": "3"}))
    daemon = follow().wait_ready()
    first, second = api.seen("GET", NODES)[:2]
    assert 3 <= second.time - first.time < PATIENCE
    check(api, daemon)


def test_the_definition_is_installed_later(api, follow):
    api.install("Device", False)
    api.put(node("n1"), pod("p", percent(50)))
    daemon = follow()

    def says_why():
        state, text = daemon.readiness()
        return state == 503 and "devices.scheduling.koordinator.sh is not installed" in text
    wait_until(says_why, "readyz names what is missing")
    api.install("Device")
    api.put(device("n1"))
    daemon.wait_open()
    assert daemon.schedule("p", ["n1"]) == "n1"
    check(api, daemon)


# ---- watches ----

def half_a_line(api):
    api.send("Pod", b'{"type":"MODIFIED","object":{"kind":"Pod","meta')
    api.end_watches("close", "Pod")


@pytest.mark.parametrize("misdeed", [
    lambda api: api.end_watches("close"),
    lambda api: api.end_watches("reset"),
    lambda api: api.expire(),
    half_a_line,
    lambda api: api.send("Pod", b"no JSON\n"),
    lambda api: api.send("Pod", {"type": "ERROR", "object": {
        "kind": "Status", "status": "Failure", "code": 500, "message": "as scripted"}}),
], ids=["closed", "reset", "expired", "half-a-line", "no-json", "error-event"])
def test_what_happens_in_a_gap_is_found(api, follow, misdeed):
    api.put(*gpu_node("n1"), bound("stays", "n1"), bound("goes", "n1"), bound("ends", "n1", 100, 1))
    daemon = follow().wait_open()
    check(api, daemon)
    api.silence()  # from here on nothing is told
    api.delete("Pod", "goes")
    api.change("Pod", "ends", lambda stored: stored["status"].update(phase="Succeeded"))
    api.put(*gpu_node("n2"), bound("comes", "n2"), pod("p", percent(100)))
    misdeed(api)
    for kind in ("Node", "Device"):
        api.end_watches("close", kind)
    wait_until(lambda: (daemon.cached_node("n2") or {}).get("hasDevices"), "and its devices")
    check(api, daemon)
    assert daemon.schedule("p", ["n1"]) == "n1"
    check(api, daemon)


def test_deletes_that_a_watch_missed_are_found_by_a_list(api, follow):
    """The versions in between are forgotten, so nobody will ever tell."""
    api.put(*gpu_node("n1", 1), *gpu_node("n2", 1), bound("goes", "n1", 100), pod("p", percent(100)))
    daemon = follow().wait_open()
    api.silence()
    api.delete("Pod", "goes")
    api.delete("Node", "n2")
    api.delete("Device", "n2")
    api.store.forget()
    api.end_watches("reset")
    wait_until(lambda: not daemon.booked() and not daemon.cached_node("n2"), "both are gone")
    assert daemon.schedule("p", ["n1"]) == "n1"
    check(api, daemon)


def test_a_storm_of_410_empties_nothing(api, follow):
    api.put(*[obj for number in range(4) for obj in gpu_node(f"n{number}")],
            *[bound(f"old-{number}", f"n{number}") for number in range(4)])
    daemon = follow(TIMES + "reflector:\n  pageSize: 2\n").wait_open()
    check(api, daemon)
    lists = len(api.seen("GET", PODS))
    api.fault("GET", PODS + r".*continue", Fault(status=410, reason="Expired"), times=2)
    sizes = set()
    for number in range(8):
        api.put(bound(f"new-{number}", f"n{number % 4}", 10, 1))
        api.expire()
        end = time.monotonic() + 0.25
        while time.monotonic() < end:
            sizes.add(len(daemon.booked()))
    check(api, daemon)
    assert min(sizes) >= 4, "a list that is under way takes nothing away"
    # Each pause is longer than the one before: a storm does not become one of our own.
    assert len(api.seen("GET", PODS)) - lists <= 4 * 8


def test_bookmarks_alone_move_the_version(api, follow):
    api.put(*gpu_node("n1"), pod("p", percent(50)))
    daemon = follow().wait_open()
    for _ in range(5):
        api.put(node("busy"))  # the version moves, and no pod changes
        api.bookmark("Pod")
    reached = str(api.store.version)
    wait_until(lambda: api.end_watches("close", "Pod"), "there is a watch")
    before = len(api.seen("GET", PODS))
    wait_until(lambda: api.seen("GET", WATCH_PODS)[-1].query["resourceVersion"] == reached,
               "the watch goes on from the bookmark")
    assert len(api.seen("GET", PODS)) == before, "no list was needed"
    assert daemon.schedule("p", ["n1"]) == "n1"
    check(api, daemon)


def test_events_that_come_twice_and_out_of_order(api, follow):
    """Of each object the order holds, as the API server promises; between objects nothing does."""
    api.put(*gpu_node("n1"), *gpu_node("n2"))
    daemon = follow().wait_open()
    api.silence("Pod")
    pods = api.put(*[bound(f"p-{number}", f"n{1 + number % 2}", 20) for number in range(6)])

    def event(what, stored, **fields):
        return {"type": what, "object": {"kind": "Pod", "apiVersion": "v1", **stored, **fields}}
    added = [event("ADDED", stored) for stored in pods]
    finished = event("DELETED", pods[5])
    api.delete("Pod", "p-5")
    version = str(api.store.version)
    api.send("Pod", *reversed(added), *added, *added[::2], finished, finished, *added[:3])
    api.send("Pod", {"type": "BOOKMARK", "object": {
        "kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version}}})
    check(api, daemon)
    assert len(daemon.booked()) == 5


def test_a_hung_watch_is_found(api, follow):
    api.put(*gpu_node("n1", 1), bound("goes", "n1", 100), pod("p", percent(100)))
    daemon = follow(TIMES + "reflector:\n  idleTimeout: 2s\n").wait_open()
    api.silence()
    before = len(api.seen("GET", WATCH_PODS))
    api.delete("Pod", "goes")
    wait_until(lambda: not daemon.booked(), "the deletion is found")
    assert len(api.seen("GET", WATCH_PODS)) > before, "not by the watch that is silent"
    assert daemon.schedule("p", ["n1"]) == "n1"
    check(api, daemon)


# ---- objects ----

def test_an_annotation_of_300_kilobytes(api, follow):
    """No API server stores one, yet a reader must not fall over it, nor bind to be refused."""
    api.put(*gpu_node("n1", 2), pod("p", percent(50)),
            pod("large", percent(100), metadata={"annotations": {"note": "x\\\"" * 100_000}}),
            *[bound(f"old-{number}", "n1", 10) for number in range(3)])
    daemon = follow().wait_open()
    check(api, daemon)
    problem = daemon.bind(daemon.pod("large"), "n1")
    assert "262144" in problem and not api.seen("POST", "/pods/large/binding")
    api.change("Pod", "old-1", lambda stored: stored["metadata"]["annotations"].update(
        note="y" * 300_000))
    api.put(bound("after", "n1", 10))
    wait_until(lambda: len(daemon.booked()) == 4, "the watch goes on behind it")
    assert daemon.schedule("p", ["n1"]) == "n1"
    check(api, daemon)


def test_an_object_that_cannot_be_read_keeps_its_place(api, follow):
    api.put(*gpu_node("n1", 1), bound("odd", "n1", 100), pod("p", percent(50)))
    daemon = follow().wait_open()
    before = daemon.booked()
    api.change("Pod", "odd", lambda stored: stored["spec"].update(containers="none"))
    wait_until(lambda: "Object cannot be read" in daemon.log(), "it is told")
    assert daemon.booked() == before
    assert daemon.schedule("p", ["n1"]) is None
    lists = len(api.seen("GET", PODS))
    api.expire()
    wait_until(lambda: len(api.seen("GET", PODS)) > lists, "pods are listed again")
    api.put(bound("later", "n1", 0))
    wait_until(lambda: api.follows("Pod"), "and watched")
    assert set(before) <= set(daemon.booked())


# ---- slowness ----

def filter_seconds(daemon, stored, count):
    """Seconds of each filter call over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)
    body = json.dumps(daemon.arguments(stored, [f"n{number}" for number in range(4)]))
    taken = []
    for _ in range(count):
        begun = time.monotonic()
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200 and json.loads(answer.read())["NodeNames"]
        taken.append(time.monotonic() - begun)
    connection.close()
    return taken


def test_filter_stays_fast_while_binds_and_lists_stall(api, follow):
    for number in range(4):
        api.put(*gpu_node(f"n{number}", 4))
    pods = api.put(*[pod(f"p-{number}", percent(50)) for number in range(9)])
    daemon = follow("bind: {timeout: 60s}\nleaderElection: {leaseDuration: 240s, renewDeadline: 120s}\n")
    daemon.wait_open()
    usual = statistics.median(filter_seconds(daemon, pods[8], 100))

    over = threading.Event()
    api.fault("POST", "/binding", Fault(held=over), times=8)
    api.fault("GET", r"\?limit", Fault(held=over), times=100)
    api.expire()
    wait_until(lambda: '410' in daemon.log(), "lists are asked for")
    problems = []
    binders = [threading.Thread(target=lambda own=stored: problems.append(
        daemon.bind(own, "n1" if own["metadata"]["name"] < "p-4" else "n2")))
               for stored in pods[:8]]
    for binder in binders:
        binder.start()
    wait_until(lambda: len(api.seen("POST", "/binding")) == 8, "all bindings are under way")
    stalled = filter_seconds(daemon, pods[8], 50)
    assert problems == [], "measured while they stalled"
    over.set()
    for binder in binders:
        binder.join()
    assert problems == [""] * 8
    # A filter that waited for a bind or a list would have waited for ever, or until it gave up.
    assert statistics.median(stalled) < 20 * usual + 0.02, (usual, stalled)
    wait_until(lambda: api.seen("GET", PODS + "|" + WATCH_PODS)[-1].query.get("watch"),
               "the lists are over")
    check(api, daemon)
    assert len(allocations(api)) == 8


# ---- who we are ----

def test_the_token_file_is_rotated(tmp_path, follow):
    authority = Authority(tmp_path / "pki")
    pair = authority.server()
    token = tmp_path / "token"
    token.write_text("first\n")
    with FakeApiServer(tls=(pair.cert, pair.key)) as api:
        api.put(*gpu_node("n1"), pod("p", percent(50)), pod("q", percent(50)))
        daemon = follow(kubeconfig=api.kubeconfig(tmp_path, ca=authority.cert,
                                                  tokenFile=str(token)))
        daemon.api = api
        daemon.wait_open()
        assert {request.headers.get("Authorization") for request in api.requests} == {
            "Bearer first"}
        token.write_text("second\n")
        api.fault("POST", "/binding", Fault(status=401, reason="Unauthorized"))
        assert daemon.schedule("p", ["n1"]) == "n1"
        assert [request.headers["Authorization"] for request in api.seen("POST", "/binding")] == [
            "Bearer first", "Bearer second"]
        api.fault("GET", WATCH_PODS, Fault(status=401, reason="Unauthorized"))
        api.end_watches("close", "Pod")
        wait_until(lambda: api.seen("GET", WATCH_PODS)[-1].headers["Authorization"] == "Bearer second",
                   "the watch is begun anew")
        assert daemon.schedule("q", ["n1"]) == "n1"
        check(api, daemon)
        for name in ("p", "q"):
            assert api.get("Pod", name)["metadata"]["annotations"][VISIBLE]
