# SPDX-License-Identifier: Apache-2.0
"""The daemon dies, at any moment and at each step of a bind, and so do kube-apiserver and etcd: no
card is given twice, nothing is lost, and the daemon believes in the end what the API server holds.
docs/safety.md says why."""
import concurrent.futures
import os
import random
import time

import pytest

from stage import objects, scheduler
from stage.api import ApiError
from stage.checker import check
from stage.objects import MEMORY, gpus, percent, pod
from stage.process import wait_until
from stage.proxy import BINDING
from stage.replica import Replica

SEED = int(os.environ.get("TEST_SEED") or random.randrange(10**6))
# So that kube-scheduler does not sleep off a failure for ten seconds.
BACKOFF = "podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\n"


@pytest.fixture
def daemon(plane, cluster, launch, tmp_path):
    """The daemon behind a proxy; the story starts it."""
    made = Replica(plane, tmp_path, "extender", cluster.namespace)
    plane.processes.append(made)
    launch(made)
    yield made
    made.proxy.stop()


@pytest.fixture
def start_scheduling(plane, daemon, start_scheduler):
    return lambda: start_scheduler(
        scheduler.shipped("not-advertised", plane.scheduler_kubeconfig(), daemon.url) + BACKOFF)


def create_anyhow(cluster, manifest):
    """Create a pod, through every failure of the API server."""
    def created():
        try:
            return cluster.create(manifest)
        except ApiError as error:
            if error.status == 409: # an attempt without an answer was carried out
                return True
            raise
    cluster.wait(created, f"{manifest['metadata']['name']} is created")


def burst(cluster, choices, prefix, count):
    """So many pods by 8 writers, under way when this returns: wait for the future's result."""
    manifests = [pod(f"{prefix}-{number}", choices.choice([percent(10), percent(25),
                                                           {MEMORY: "10Gi"}]))
                 for number in range(count)]
    writers = concurrent.futures.ThreadPoolExecutor(8)
    return [writers.submit(create_anyhow, cluster, manifest) for manifest in manifests]


def test_killed_at_random_moments(cluster, daemon, start_scheduling):
    print(f"TEST_SEED={SEED}")
    choices = random.Random(SEED)
    for number in range(6):
        cluster.create_gpu_node(f"n{number}", gpus(8), False)
    daemon.start()
    start_scheduling()
    for round_number in range(1, 4):
        started = burst(cluster, choices, f"round-{round_number}", 50)
        time.sleep(choices.uniform(0, 0.7)) # the moment is the point, nothing waits for it
        daemon.crash()
        daemon.start()
        if round_number == 2: # once more, while it has not bound anything yet
            time.sleep(choices.uniform(0, 3))
            daemon.crash()
            daemon.start()
        for one in started:
            one.result()
        cluster.wait_all_bound(50 * round_number)
        check(cluster.api, pods=50 * round_number)
        daemon.wait_truth(cluster)


@pytest.mark.parametrize("step", ["booked", "checked", "answered", "confirmed"])
def test_killed_at_a_step_of_a_bind(cluster, daemon, start_scheduling, step):
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon.start(f"{step}:KILL")
    start_scheduling()
    cluster.create_pod("first", percent(60))
    daemon.wait_gone()
    # What the API server had been told before is there, and nothing else.
    assert bool(cluster.pod("first")["spec"].get("nodeName")) == (step in ("answered", "confirmed"))
    daemon.start()
    cluster.wait_bound("first")
    cluster.create_pod("second", percent(60))
    cluster.wait_unschedulable("second")
    check(cluster.api, pods=1)
    daemon.wait_truth(cluster)


MOST_COMPUTE = {"koordinator.sh/gpu-core": 60, "koordinator.sh/gpu-memory-ratio": 10}


@pytest.fixture
def late(cluster, daemon, start_scheduling):
    """A binding of 60 % of the only card's compute, on its way when the process that sent it was killed. Its
    successor leads, and has yet to wait. kube-scheduler sleeps: the story plays it."""
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon.start()
    asks = start_scheduling()
    held = daemon.proxy.hold(BINDING)
    cluster.create_pod("first", MOST_COMPUTE)
    assert "/pods/first/binding" in held.wait_arrived()
    asks.stop()
    daemon.crash()
    daemon.start()
    wait_until(lambda: daemon.standing().startswith("leads; "), "the successor leads")
    return held


def test_a_late_binding_within_the_bounds(cluster, daemon, late):
    rival = cluster.create_pod("rival", MOST_COMPUTE)
    # It must not give away the card now.
    assert "may still arrive" in daemon.bind(rival, "n1")
    assert late.release() == 201
    wait_until(daemon.leads, "the successor binds")
    assert "Insufficient" in daemon.bind(rival, "n1")
    check(cluster.api, pods=1)
    daemon.wait_truth(cluster)


def test_a_late_binding_past_the_bounds_is_found(cluster, daemon, late):
    """No lease and no timeout can hold up a request that the network keeps for longer than we said
    that it would: the documented rest."""
    doubled = 'deviceshare_allocation_drift_total{kind="doubled"}'
    wait_until(daemon.leads, "the successor binds")
    rival = cluster.create_pod("rival", MOST_COMPUTE)
    assert daemon.bind(rival, "n1") == ""
    assert daemon.series(doubled) == 0
    assert late.release() == 201
    wait_until(lambda: daemon.series(doubled) == 2, "both are counted")
    assert daemon.said("Card given twice") == 2
    # Memory alone would be left.
    third = cluster.create_pod("third", {"koordinator.sh/gpu-memory-ratio": 10})
    assert "Insufficient" in daemon.bind(third, "n1")
    daemon.wait_truth(cluster)
    # Not for ever: as soon as one of the two has ended, the card is open again.
    cluster.delete_pod("first")
    wait_until(lambda: daemon.bind(third, "n1") == "", "the card is open again")
    check(cluster.api, pods=2)


def test_an_answer_that_is_lost(cluster, daemon, start_scheduling):
    """The binding is carried out and the daemon is not told: it finds out, and neither books the
    pod twice nor forgets it."""
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon.start()
    start_scheduling()
    held = daemon.proxy.hold(BINDING, answer=True)
    cluster.create_pod("first", percent(60))
    held.wait_arrived()
    held.drop()
    cluster.wait_bound("first")
    cluster.create_pod("second", percent(60))
    cluster.wait_unschedulable("second")
    check(cluster.api, pods=1)
    daemon.wait_truth(cluster)
    assert daemon.alive() and objects.ALLOCATED in cluster.pod("first")["metadata"]["annotations"]


def test_kube_apiserver_and_etcd_restart_under_load(plane, cluster, daemon, start_scheduling):
    print(f"TEST_SEED={SEED}")
    choices = random.Random(SEED)
    for number in range(6):
        cluster.create_gpu_node(f"n{number}", gpus(8), False)
    daemon.start()
    start_scheduling()
    started = burst(cluster, choices, "burst", 150)
    for parts in ([plane.apiserver], [plane.etcd], [plane.apiserver, plane.etcd]):
        time.sleep(choices.uniform(0.2, 1)) # as above
        for part in parts:
            part.kill()
        for part in reversed(parts):
            part.start()
        plane.wait_ready()
    for one in started:
        one.result()
    cluster.wait_all_bound(150, seconds=90)
    check(cluster.api, pods=150)
    daemon.wait_truth(cluster)
