# SPDX-License-Identifier: Apache-2.0
"""What becomes of pods when the cards of their nodes change: sick, gone, back, more, other sizes; and
when there are no Device objects at all, or a device plugin that hands out the same cards."""
import json
import threading
import time

import pytest

from stage import objects, scheduler
from stage.checker import check
from stage.objects import ALLOCATED, GIB, MEMORY, RATIO, gpu, gpus, percent

NO_ROOM = "Insufficient gpu devices"
SOON = 10  # seconds within which a pod that waits is bound once it fits
FORM = "not-advertised"  # only Device objects speak of cards: kube-scheduler itself sees no change


@pytest.fixture
def start(plane, follow, start_scheduler):
    """start(): the daemon, and a kube-scheduler that asks it."""
    def begin(config=""):
        daemon = follow(config)
        start_scheduler(scheduler.shipped(FORM, plane.scheduler_kubeconfig(), daemon.url))
        return daemon
    return begin


def cards_of(pod):
    """(node, minor) of each of a bound pod's GPUs."""
    allocated = json.loads(pod["metadata"]["annotations"][ALLOCATED])
    return {(pod["spec"]["nodeName"], entry["minor"]) for entry in allocated["gpu"]}


def bound_soon(cluster, name):
    """The pod, bound within the time that is promised."""
    return cluster.wait_bound(name, SOON)


class Load(threading.Thread):
    """Creates small pods and ends them again, until it is stopped."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster, self.done, self.count, self.problem = cluster, threading.Event(), 0, None

    def run(self):
        try:
            while not self.done.wait(0.05):
                self.cluster.create_pod(f"load-{self.count}", percent(10))
                self.count += 1
                if self.count > 12:
                    self.cluster.delete_pod(f"load-{self.count - 13}")
        except Exception as problem:  # told by stop(), in the story's own thread
            self.problem = problem

    def stop(self):
        self.done.set()
        self.join()
        assert self.problem is None, self.problem


@pytest.fixture
def load(cluster):
    """Pods come and go all the time."""
    running = Load(cluster)
    running.start()
    yield running
    running.done.set()
    running.join()


def test_cards_change_under_load(cluster, start, load):
    """Whatever happens to a card, the pods that come while we know it go where they may."""
    for name in ("n1", "n2", "n3"):
        cluster.create_gpu_node(name, gpus(4), False)
    daemon = start()
    whole = gpus(4)
    changes = [
        ("sick", [gpu(0, health=False), *whole[1:]],
         lambda: not daemon.card("n1", 0)["usable"], {("n1", 0)}),
        ("gone", whole[:3], lambda: not (daemon.card("n1", 3) or {}).get("registered"), {("n1", 3)}),
        ("back", whole, lambda: (daemon.card("n1", 3) or {}).get("usable"), set()),
        ("more", gpus(6), lambda: (daemon.card("n1", 5) or {}).get("usable"), set()),
        ("none", [], lambda: daemon.node("n1")["hasDevices"] and not (
            daemon.card("n1", 1) or {}).get("registered"), {("n1", minor) for minor in range(6)}),
        ("all", gpus(6), lambda: (daemon.card("n1", 5) or {}).get("usable"), set()),
    ]
    for change, cards, seen, barred in changes:
        cluster.update_device("n1", *cards)
        cluster.wait(seen, f"the daemon sees: {change}")
        for number in range(4):
            cluster.create_pod(f"{change}-{number}", percent(25))
        for number in range(4):
            pod = cluster.wait_bound(f"{change}-{number}")
            assert not cards_of(pod) & barred, f"{change}: {cards_of(pod)}"
    cluster.wait(lambda: load.count > 40, "that was a load")
    load.stop()
    cluster.wait_all_bound(len(cluster.pods()))
    # The last Device has every card that ever was, so each pod can be judged by it.
    check(cluster.api, pods=24 + 12)
    assert {pod["uid"] for name in ("n1", "n2", "n3") for pod in daemon.node(name)["pods"]} == \
        {pod["metadata"]["uid"] for pod in cluster.pods()}


def test_a_card_that_recovers_takes_no_more_than_is_free(cluster, start):
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon = start()
    cluster.create_pod("before", percent(60))
    cluster.wait_bound("before")
    cluster.update_device("n1", gpu(0, health=False))
    cluster.wait(lambda: not daemon.card("n1", 0)["usable"], "the daemon sees the sick card")
    for name, share in (("small", 40), ("large", 50)):
        cluster.create_pod(name, percent(share))
        cluster.wait_unschedulable(name, NO_ROOM)
    cluster.update_device("n1", gpu(0))
    bound_soon(cluster, "small")
    cluster.wait_unschedulable("large", NO_ROOM)
    check(cluster.api, pods=2)


@pytest.mark.parametrize("what", ["the Device object", "the Node"])
def test_an_object_that_disappears_and_returns(cluster, start, what):
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon = start()
    cluster.create_pod("before", percent(60))
    cluster.wait_bound("before")
    if what == "the Node":
        cluster.api.delete("/api/v1/nodes/n1")
        cluster.wait(lambda: not daemon.node("n1")["hasNode"], "the daemon sees it")
    else:
        cluster.api.delete(f"{objects.DEVICES}/n1")
        cluster.wait(lambda: not daemon.node("n1")["hasDevices"], "the daemon sees it")
    # The pod still runs there, for all we know.
    assert [pod["name"] for pod in daemon.node("n1")["pods"]] == ["before"]
    for name, share in (("small", 40), ("large", 50)):
        cluster.create_pod(name, percent(share))
        cluster.wait_unschedulable(name)
    if what == "the Node":
        cluster.create_node("n1")
    else:
        cluster.create_device("n1", *gpus(1))
    bound_soon(cluster, "small")
    cluster.wait_unschedulable("large", NO_ROOM)
    check(cluster.api, pods=2)


def test_a_machine_gets_another_name(cluster, start):
    """Names cannot be changed: n1's Node and Device go, and n2 comes with the same cards. Its kubelet
    knows no pod of n1, and ends them; n1's own stay booked there for as long as they exist."""
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon = start()
    cluster.create_pod("before", percent(60))
    cluster.wait_bound("before")
    cluster.api.delete("/api/v1/nodes/n1")
    cluster.api.delete(f"{objects.DEVICES}/n1")
    cluster.create_gpu_node("n2", gpus(1), False)
    for name, share in (("first", 50), ("second", 50)):
        cluster.create_pod(name, percent(share))
        assert cards_of(bound_soon(cluster, name)) == {("n2", 0)}
    cluster.create_pod("third", percent(40))
    cluster.wait_unschedulable("third", NO_ROOM)
    assert [pod["name"] for pod in daemon.node("n1")["pods"]] == ["before"]

    # The old name again, with what runs under it.
    cluster.create_gpu_node("n1", gpus(1), False)
    assert cards_of(bound_soon(cluster, "third")) == {("n1", 0)}
    cluster.create_pod("fourth", percent(10))
    cluster.wait_unschedulable("fourth", NO_ROOM)
    check(cluster.api, pods=4)
    cluster.delete_pod("before")
    bound_soon(cluster, "fourth")


def test_a_card_of_another_size(cluster, start):
    """A quarter of 80Gi was given out. Whatever size the Device states later, neither what the pod
    was given nor what its request means by now is given away again."""
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon = start()
    for name in ("a", "b"):
        cluster.create_pod(name, percent(25))
        cluster.wait_bound(name)

    def resized(memory):
        cluster.update_device("n1", gpu(0, memory * GIB))
        cluster.wait(lambda: daemon.card("n1", 0)["total"][MEMORY] == memory * GIB,
                     "the daemon sees the size")
        return daemon.card("n1", 0)["used"]

    # 2 x 20Gi of 40Gi: the memory is full, although half of the ratio is free.
    used = resized(40)
    assert (used[MEMORY], used[RATIO]) == (40 * GIB, 50)
    cluster.create_pod("c", percent(25))
    cluster.wait_unschedulable("c", NO_ROOM)

    # Of 160Gi a quarter is 40Gi: two take half.
    used = resized(160)
    assert (used[MEMORY], used[RATIO]) == (80 * GIB, 50)
    bound_soon(cluster, "c")
    cluster.create_pod("d", {MEMORY: "41Gi"})
    cluster.wait_unschedulable("d", NO_ROOM)
    cluster.create_pod("e", {MEMORY: "40Gi"})
    bound_soon(cluster, "e")

    # As at the beginning: all four stand as they were given.
    resized(80)
    for name, gib in (("a", 20), ("b", 20), ("c", 40), ("e", 40)):
        allocated = json.loads(cluster.pod(name)["metadata"]["annotations"][ALLOCATED])
        assert allocated["gpu"][0]["resources"][MEMORY] == f"{gib}Gi"


def test_devices_are_installed_later(cluster, plane, follow, start_scheduler):
    cluster.kubectl("delete", "crd", "devices.scheduling.koordinator.sh")
    cluster.wait(lambda: cluster.api.raw("GET", objects.DEVICES)[0] == 404, "no Devices are served")
    cluster.create_node("n1")
    daemon = follow(ready=False)
    cluster.wait(lambda: "devices.scheduling.koordinator.sh is not installed" in daemon.readyz(),
                 "readyz says what is missing")
    start_scheduler(scheduler.shipped(FORM, plane.scheduler_kubeconfig(), daemon.url))
    cluster.create_pod("waits", percent(50))
    cluster.create_pod("plain")
    cluster.wait_event("waits", "FailedScheduling", "not listed yet")
    cluster.wait_bound("plain")

    cluster.install_device_crd()
    cluster.create_device("n1", *gpus(1))
    began = time.monotonic()
    bound_soon(cluster, "waits")
    assert time.monotonic() - began < SOON
    assert daemon.readyz() == "ok"
    check(cluster.api, pods=1)


def test_a_device_plugin_keeps_its_node(cluster, start):
    """NVIDIA's plugin registers its cards with kubelet, which writes them into the node's status."""
    cluster.create_device("n1", *gpus(2))
    cluster.create_node("n1", allocatable={"nvidia.com/gpu": "2"})
    start()
    cluster.create_pod("waits", {"nvidia.com/gpu": 1})
    message = cluster.wait_unschedulable("waits", "1 node(s) had gpus that a device plugin hands out")
    assert "not helpful for scheduling" in message, "preempting somebody would not help"

    # The plugin goes; kubelet goes on naming its resource.
    none = {"nvidia.com/gpu": "0"}
    cluster.api.patch("/api/v1/nodes/n1/status", {"status": {"capacity": none, "allocatable": none}})
    bound_soon(cluster, "waits")
    check(cluster.api, pods=1)


def test_a_device_plugin_may_be_allowed(cluster, start):
    cluster.create_device("n1", *gpus(2))
    cluster.create_node("n1", allocatable={"nvidia.com/gpu": "2"})
    start("devicePluginNodes: allow\n")
    cluster.create_pod("whole", {"nvidia.com/gpu": 1})
    cluster.wait_bound("whole")
    check(cluster.api, pods=1)
