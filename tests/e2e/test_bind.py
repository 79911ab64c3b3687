# SPDX-License-Identifier: Apache-2.0
"""The whole way on real parts: kube-scheduler asks, our daemon follows the API server, decides and
binds with one write. An independent checker reads only the API server."""
import json
import random
import time

import pytest

from stage import scheduler
from stage.checker import Card, check, judge
from stage.objects import ALLOCATED, CORE, FPGA, GIB, MEMORY, RATIO, SHARED, fpga, gpu, gpus, nic, percent, pod
from stage.replica import allocated, believed

NO_ROOM = "Insufficient gpu devices"
# Shorter than in a cluster, so that a story does not wait; the rules between them hold.
TIMES = """bind:
  timeout: 1s
  delivery: 500ms
leaderElection:
  leaseDuration: 4s
  renewDeadline: 3s
  retryPeriod: 500ms
"""


@pytest.fixture
def start(plane, cluster, form, start_extender, start_scheduler):
    """start(config=TIMES): the daemon on the API server, and a kube-scheduler that asks it for
    everything. The daemon."""
    def begin(config=TIMES):
        kubeconfig = plane.certificate_kubeconfig("deviceshare", "system:masters",
                                                  cluster.namespace)
        daemon = start_extender(config=config, flags=["--kubeconfig", kubeconfig])
        start_scheduler(scheduler.shipped(form, plane.scheduler_kubeconfig(), daemon.url))
        return daemon
    return begin


@pytest.fixture
def add_node(cluster, form):
    """add_node(name, cards): a node that does or does not advertise its cards."""
    return lambda name, cards: cluster.create_gpu_node(name, cards, form == "advertised")


def shares(stored, kind="gpu"):
    return json.loads(stored["metadata"]["annotations"][ALLOCATED])[kind]


def test_each_kind_of_request_is_bound_with_one_write(plane, cluster, add_node, start):
    add_node("n1", gpus(4) + [nic(0), nic(1), fpga(0)])
    add_node("n2", gpus(8, memory=16 * GIB) + [nic(0)])
    start()
    requests = {
        "half": percent(50),
        "memory": {MEMORY: "6Gi"},
        "core-memory": {CORE: 30, MEMORY: "8Gi"},
        "ratio": {RATIO: 25},
        "vendor": {"nvidia.com/gpu": 1},
        "two": {"koordinator.sh/gpu": 200},
        "parts-of-two": {SHARED: 2, CORE: 60, MEMORY: "8Gi"},
        "net": {"koordinator.sh/gpu": 100, "koordinator.sh/rdma": 100},
        "net-alone": {"koordinator.sh/rdma": 50},
        "fpga": {FPGA: 50},
    }
    mark = plane.audit_mark()
    for name, request in requests.items():
        cluster.create_pod(name, request)
    for name in requests:
        cluster.wait_bound(name)
    check(cluster.api, pods=len(requests))
    writes = [entry for entry in plane.audit(mark, resource="pods", user="deviceshare")
              if entry.verb in ("create", "update", "patch", "delete")]
    assert sorted(entry.name for entry in writes) == sorted(requests)
    assert {entry.subresource for entry in writes} == {"binding"}
    assert {entry.status for entry in writes} == {201}


def test_a_full_cluster_and_one_more(cluster, form, add_node, start):
    # Where nodes advertise their cards, kube-scheduler itself sees that the sum is used up.
    no_room = f"Insufficient {CORE}" if form == "advertised" else NO_ROOM
    for name in ("n1", "n2", "n3"):
        add_node(name, gpus(4))
    start()
    # Twelve cards, and always room for the next: the large ones first.
    sizes = [percent(100)] * 6 + [percent(50)] * 8 + [percent(25)] * 8
    for number, size in enumerate(sizes):
        cluster.create_pod(f"pod-{number}", size)
        cluster.wait_bound(f"pod-{number}")
    check(cluster.api, pods=len(sizes))
    cluster.create_pod("last", percent(50))
    message = cluster.wait_unschedulable("last", no_room)
    assert message.startswith("0/3 nodes are available: ") and f"3 {no_room}" in message
    assert cluster.wait_event("last", "FailedScheduling", f"3 {no_room}")
    cluster.mark_terminating("pod-0")
    time.sleep(2)
    assert not cluster.pod("last")["spec"].get("nodeName")
    cluster.delete_pod("pod-0")
    cluster.wait_bound("last")
    cluster.create_pod("another", percent(100))
    cluster.wait_unschedulable("another", no_room)
    cluster.finish_pod("pod-1")
    cluster.wait_bound("another")
    check(cluster.api)


def test_a_burst_of_many_writers(cluster, add_node, start):
    for number in range(10):
        add_node(f"n{number}", gpus(8))
    daemon = start()
    choices = random.Random(4).choices([percent(10), percent(25), {MEMORY: "10Gi"}], k=300)
    cluster.create_many([pod(f"burst-{number}", request)
                         for number, request in enumerate(choices)], writers=8)
    cluster.wait_all_bound(300)
    check(cluster.api, pods=300)
    # Every amount of every card, of the annotations alone and of the daemon.
    assert believed(daemon.cache()) == allocated(cluster.pods())
    used = {Card(node["name"], card["type"], card["minor"]): card["used"]
            for node in daemon.cache()["nodes"] for card in node["cards"] if card["used"]}
    assert used == {card: dict(sums) for card, sums in judge(cluster.api).used.items()}


@pytest.mark.parametrize("how", ["crash", "end"])
def test_a_restart_loses_nothing(cluster, add_node, start, how):
    for name in ("n1", "n2"):
        add_node(name, gpus(2))
    daemon = start()
    for number in range(6):
        cluster.create_pod(f"before-{number}", percent(50))
    cluster.wait_all_bound(6)
    getattr(daemon, how)()
    daemon.start()
    for number in range(2):
        cluster.create_pod(f"after-{number}", percent(50))
    cluster.wait_all_bound(8)
    cluster.create_pod("too-many", percent(10))
    cluster.wait_unschedulable("too-many")
    check(cluster.api)


def test_a_card_that_recovers_wakes_the_waiting_pod(cluster, add_node, start):
    # The node advertises the card all the time, where it does: only the Device object changes.
    add_node("n1", gpus(1))
    cluster.update_device("n1", gpu(0, health=False))
    start()
    cluster.create_pod("waits", percent(50))
    cluster.wait_unschedulable("waits", NO_ROOM)
    time.sleep(3)
    recovered = time.monotonic()
    cluster.update_device("n1", gpu(0))
    cluster.wait_bound("waits")
    assert time.monotonic() - recovered < 10
    check(cluster.api, pods=1)
