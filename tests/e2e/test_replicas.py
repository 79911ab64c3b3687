# SPDX-License-Identifier: Apache-2.0
"""Several daemons of which one leads: it is killed, cut off, put to sleep, replaced, evicted.
kube-scheduler calls a Service, which follows the leader's label. docs/safety.md says why nothing is
given twice, and what is left."""
import http.client
import json
import os
import random
import threading
import time

import pytest

from stage import scheduler
from stage.checker import check
from stage.objects import gpus, percent, pod
from stage.process import wait_until
from stage.replica import FAILOVER_S, Kubelet, Service

SEED = int(os.environ.get("TEST_SEED") or random.randrange(10**6))
# kube-scheduler's own pause after a failure, and what a busy machine adds.
A_LITTLE_S = 6
BACKOFF = "podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\n"


@pytest.fixture
def kubelet(plane, cluster, launch, tmp_path):
    """Runs our Pods, which live in a namespace of their own."""
    namespace = cluster.namespace[:50].rstrip("-") + "-ours"
    plane.admin("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    def keep(replica):
        plane.processes.append(replica)
        return launch(replica)
    made = Kubelet(plane, namespace, tmp_path, keep)
    yield made
    made.stop()


@pytest.fixture
def settle(kubelet):
    """settle(): the leader, once one alone has the label and binds."""
    def leader(seconds=60):
        def look():
            kubelet.sync()
            return kubelet.leader()
        return wait_until(kubelet.plane.admin.polling(look), "one leads, and alone says so", seconds)
    return leader


@pytest.fixture
def schedule(plane, kubelet, start_scheduler):
    """schedule(): a kube-scheduler that calls the Service."""
    services = []

    def begin():
        services.append(Service(kubelet))
        return start_scheduler(scheduler.shipped(
            "not-advertised", plane.scheduler_kubeconfig(), services[-1].url) + BACKOFF)
    yield begin
    for service in services:
        service.stop()


@pytest.fixture
def two(cluster, kubelet, settle, schedule):
    """Two replicas, cards for all, and kube-scheduler: (the leader, the other)."""
    for number in range(4):
        cluster.create_gpu_node(f"n{number}", gpus(8), False)
    for name in ("extender-a", "extender-b"):
        kubelet.create_pod(name)
    leader = settle()
    schedule()
    other, = set(kubelet.replicas.values()) - {leader}
    return leader, other


class Trickle:
    """A pod every tenth of a second, from a thread, until it is stopped."""

    def __init__(self, cluster):
        self.cluster, self.count = cluster, 0
        self.created = {} # name: when
        self.over = threading.Event()
        self.choices = random.Random(SEED)
        self.thread = threading.Thread(target=self._create, daemon=True)
        self.thread.start()

    def _create(self):
        while not self.over.wait(0.1):
            name = f"trickle-{self.count}"
            self.cluster.create(pod(name, percent(self.choices.choice([5, 10, 20]))))
            self.created[name] = time.monotonic()
            self.count += 1

    def wait_bound_since(self, moment, seconds):
        """When a pod that was created after the moment was seen to be bound."""
        def bound():
            return any(item["spec"].get("nodeName") and self.created.get(item["metadata"]["name"],
                                                                         0) > moment
                       for item in self.cluster.pods())
        self.cluster.wait(bound, "a pod that was created after the fault is bound", seconds)
        return time.monotonic()

    def end(self):
        self.over.set()
        self.thread.join()
        self.cluster.wait_all_bound(self.count)
        check(self.cluster.api, pods=self.count)


def ask_to_keep(replica, verb, body):
    """The answer over a connection that the client would keep, and whether the server closes it."""
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=20)
    connection.request("POST", f"/{verb}", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = json.loads(answer.read())
    closes = answer.getheader("Connection", "").lower() == "close"
    connection.close()
    return text, closes


def test_who_does_not_lead_does_not_decide(cluster, two):
    leader, other = two
    stored = cluster.create(pod("asked", percent(50), schedulerName="nobody"))
    candidates = {"Pod": stored, "Nodes": None, "NodeNames": ["n0", "n1"]}
    metadata = stored["metadata"]
    binds = {"PodName": "asked", "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"],
             "Node": "n0"}
    victims = {"Pod": stored, "NodeNameToVictims": None,
               "NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0}}}
    for verb, body in (("filter", candidates), ("bind", binds)):
        answer, closes = ask_to_keep(other, verb, body)
        assert "does not lead" in answer["Error"] and closes, answer
    assert ask_to_keep(other, "prioritize", candidates) == ([], True)
    assert ask_to_keep(other, "preempt", victims) == ({"NodeNameToMetaVictims": {}}, True)
    assert other.get("/readyz") and "stands by; the Lease names" in other.standing()
    answer, closes = ask_to_keep(leader, "filter", candidates)
    assert sorted(answer["NodeNames"]) == ["n0", "n1"] and not closes
    assert not cluster.pod("asked")["spec"].get("nodeName")


@pytest.mark.parametrize("how", ["killed", "cut off", "asleep"])
def test_the_leader_is(cluster, kubelet, two, settle, how):
    print(f"TEST_SEED={SEED}")
    leader, other = two
    trickle = Trickle(cluster)
    trickle.wait_bound_since(0, 30)
    began = time.monotonic()
    if how == "killed":
        leader.crash()
    elif how == "cut off":
        leader.proxy.black_hole()
    else:
        leader.pause()
    took = trickle.wait_bound_since(began, FAILOVER_S + A_LITTLE_S) - began
    print(f"{how}: bound again after {took:.1f} s; {FAILOVER_S:.1f} s by the rules")
    assert kubelet.labelled() == [other.pod]
    if how == "killed":
        leader.start() # in the same Pod, as a kubelet does
    elif how == "cut off":
        assert not leader.leads()
        leader.proxy.heal()
    else:
        leader.resume()
    wait_until(lambda: leader.standing().startswith("stands by"), "who led stands by")
    assert settle() is other
    trickle.end()
    for replica in (leader, other):
        replica.wait_truth(cluster)


@pytest.mark.parametrize("how", ["taken off", "put on the other", "moved to the other"])
def test_a_label_that_somebody_touches_comes_back(cluster, kubelet, two, settle, how):
    """By hand here; the late request of a process that led before would do the same."""
    leader, other = two
    for replica, value, hows in ((leader, None, ("taken off", "moved to the other")),
                                 (other, "true", ("put on the other", "moved to the other"))):
        if how in hows:
            kubelet.label(replica.pod, value)
    cluster.create_pod("waits", percent(50))
    wait_until(lambda: kubelet.labelled() == [leader.pod], "the leader alone has its label again")
    cluster.wait_bound("waits")
    assert leader.leads() and leader.said("Label of the leading Pod was moved") == 1
    check(cluster.api, pods=1)


@pytest.fixture
def sleeper(cluster, kubelet, settle, schedule):
    """sleeper(step): a leader that fell asleep at this step of the bind of "first", which asks for
    60 % of the only card; and its successor. kube-scheduler has ended: the story plays it."""
    def begin(step):
        cluster.create_gpu_node("n1", gpus(1), False)
        kubelet.stop_at = f"{step}:STOP"
        leader = kubelet.create_pod("extender-a")
        assert settle() is leader
        kubelet.stop_at = None
        other = kubelet.create_pod("extender-b")
        asks = schedule()
        cluster.create_pod("first", percent(60))
        leader.wait_paused()
        asks.stop()
        wait_until(lambda: other.leads() and kubelet.labelled() == [other.pod],
                   "the other leads and binds")
        return leader, other
    return begin


def test_asleep_before_the_fence_is_asked(cluster, sleeper):
    """It wakes up with the cards booked and asks whether it may send: it may not."""
    leader, other = sleeper("booked")
    rival = cluster.create_pod("rival", percent(60))
    assert other.bind(rival, "n1") == ""
    leader.resume()
    wait_until(lambda: leader.said("not sent: "), "it does not send its binding")
    wait_until(lambda: leader.standing().startswith("stands by"), "it stands by")
    check(cluster.api, pods=1)
    for replica in (leader, other):
        replica.wait_truth(cluster)


def test_asleep_between_fence_and_send(cluster, sleeper):
    """The documented rest: no process can check and send at once."""
    doubled = 'deviceshare_allocation_drift_total{kind="doubled"}'
    leader, other = sleeper("checked")
    rival = cluster.create_pod("rival", percent(60))
    assert other.bind(rival, "n1") == ""
    leader.resume()
    cluster.wait_bound("first")
    wait_until(lambda: other.series(doubled) == 2, "both are counted")
    third = cluster.create_pod("third", percent(10))
    assert "Insufficient" in other.bind(third, "n1")
    for replica in (leader, other):
        replica.wait_truth(cluster)
    cluster.delete_pod("rival")
    wait_until(lambda: other.bind(third, "n1") == "", "the card is open again")
    check(cluster.api, pods=2)


@pytest.fixture
def deployment(plane, cluster, kubelet, settle, start_controllers, schedule):
    """Our Deployment with its PodDisruptionBudget, run by Kubernetes' own controllers; who leads."""
    for number in range(4):
        cluster.create_gpu_node(f"n{number}", gpus(8), False)
    start_controllers("deployment-controller", "replicaset-controller", "disruption-controller")
    schedule()
    kubelet.deploy()
    wait_until(kubelet.rolled_out, "two replicas are ready")
    return settle()


def test_a_rolling_update_ends(cluster, kubelet, deployment, settle):
    print(f"TEST_SEED={SEED}")
    trickle = Trickle(cluster)
    old = set(kubelet.replicas)
    kubelet.restart_rollout()
    began = time.monotonic()
    wait_until(lambda: kubelet.rolled_out() and not old & set(kubelet.replicas),
               "all replicas are new")
    print(f"rolled out after {time.monotonic() - began:.1f} s")
    settle()
    trickle.wait_bound_since(time.monotonic(), FAILOVER_S + A_LITTLE_S)
    trickle.end()


def test_the_eviction_of_the_leader_ends(cluster, kubelet, deployment, settle):
    print(f"TEST_SEED={SEED}")
    trickle = Trickle(cluster)
    trickle.wait_bound_since(0, 30)
    kubelet.evict(deployment.pod)
    wait_until(lambda: kubelet.sync() or not deployment.alive(), "it has ended")
    assert deployment.popen.returncode == 0
    ended = time.monotonic()
    took = trickle.wait_bound_since(ended, FAILOVER_S + A_LITTLE_S) - ended
    print(f"evicted: bound again after {took:.1f} s")
    wait_until(kubelet.rolled_out, "there are two again")
    # It left in order: its successor need not wait for what it may have sent.
    assert settle() is not deployment and settle().said('predecessor="stopped cleanly"')
    trickle.end()
