# SPDX-License-Identifier: Apache-2.0
"""kube-scheduler asks our daemon and understands its answers.

Here the daemon has the cluster as manifests, exported from the API server, and kube-scheduler's own
binder binds: what is shown is that filter, prioritize and preempt answers are taken as meant.
"""
import json

import pytest

from stage import objects, scheduler
from stage.checker import check, judge
from stage.objects import ALLOCATED, CORE, GIB, MEMORY, RATIO, VISIBLE, gpus, percent
from stage.process import wait_until

NO_ROOM = "Insufficient gpu devices"


@pytest.fixture
def start(plane, cluster, form, start_extender, start_scheduler):
    """start(config=""): the daemon with the cluster as it is now, and a kube-scheduler that asks
    it in one of the two shipped forms, but binds by itself. The daemon."""
    def begin(config=""):
        daemon = start_extender(cluster.export("nodes", "devices", "pods"), config)
        shipped = scheduler.shipped(form, plane.scheduler_kubeconfig(), daemon.url)
        start_scheduler(scheduler.without_bind(shipped))
        return daemon
    return begin


@pytest.fixture
def add_node(cluster, form):
    """add_node(name, cards): a node that does or does not advertise its cards."""
    return lambda name, cards: cluster.create_gpu_node(name, cards, form == "advertised")


def place(cluster, name, node, request, minor, **spec):
    """A pod that runs on a card already, as if we had bound it."""
    pod = cluster.create_pod(name, request, schedulerName="nobody", **spec)
    card = objects.gpu(minor)
    share = {CORE: str(request[CORE]), RATIO: str(request[RATIO]),
             MEMORY: str(80 * GIB * request[RATIO] // 100)}
    cluster.bind(pod, node, {
        ALLOCATED: json.dumps({"gpu": [{"minor": minor, "resources": share, "id": card["id"]}]}),
        VISIBLE: card["id"]})


def test_a_pod_goes_where_a_card_is_free(cluster, add_node, start):
    for name in ("n1", "n2", "n3"):
        add_node(name, gpus(1))
    place(cluster, "old-1", "n1", percent(100), 0)
    place(cluster, "old-3", "n3", percent(60), 0)
    start()
    check(cluster.api, pods=2)
    cluster.create_pod("half", percent(50))
    assert cluster.wait_bound("half")["spec"]["nodeName"] == "n2"
    # kube-scheduler's own binder knows of no cards, and the checker sees that.
    assert judge(cluster.api).problems == [f"{cluster.namespace}/half: bound to n2 without cards"]


def test_scores_decide_between_nodes_that_fit(cluster, add_node, start):
    for name in ("n1", "n2", "n3"):
        add_node(name, gpus(1))
    place(cluster, "old-1", "n1", percent(20), 0)
    place(cluster, "old-2", "n2", percent(50), 0)
    place(cluster, "old-3", "n3", percent(30), 0)
    start("policy:\n  node: binpack\n")
    cluster.create_pod("packed", percent(10))
    assert cluster.wait_bound("packed")["spec"]["nodeName"] == "n2"


def test_scores_spread_by_default(cluster, add_node, start):
    for name in ("n1", "n2", "n3"):
        add_node(name, gpus(1))
    place(cluster, "old-1", "n1", percent(20), 0)
    place(cluster, "old-2", "n2", percent(10), 0)
    place(cluster, "old-3", "n3", percent(30), 0)
    start()
    cluster.create_pod("spread", percent(10))
    assert cluster.wait_bound("spread")["spec"]["nodeName"] == "n2"


def test_the_condition_says_why_nothing_fits(cluster, form, add_node, start):
    """Two nodes have cards, but not enough on one of them; a third has none."""
    for name in ("n1", "n2"):
        add_node(name, gpus(2))
        for minor in (0, 1):
            place(cluster, f"old-{name}-{minor}", name, percent(60), minor)
    cluster.create_node("cpu-only")
    start()
    cluster.create_pod("half", percent(50))
    message = cluster.wait_unschedulable("half", NO_ROOM)
    assert message.startswith("0/3 nodes are available: ")
    # Equal texts are counted together.
    assert f"2 {NO_ROOM}" in message
    # A node that advertises nothing is out before we are asked.
    if form == "advertised":
        assert f"1 Insufficient {CORE}" in message
    else:
        assert "1 node(s) had no Device object" in message
    assert cluster.wait_event("half", "FailedScheduling", f"2 {NO_ROOM}")
    assert not cluster.pod("half")["spec"].get("nodeName")


def test_an_invalid_request_is_told_in_the_condition(cluster, add_node, start):
    for name in ("n1", "n2"):
        add_node(name, gpus(2))
    start()
    cluster.create_pod("alone", {CORE: 50})
    text = f"invalid resource device requests: [{CORE}]"
    message = cluster.wait_unschedulable("alone", text)
    assert message.startswith("0/2 nodes are available: 2 " + text)
    # Preempting somebody would not make the request valid.
    assert "not helpful for scheduling" in message
    assert cluster.wait_event("alone", "FailedScheduling", text)

    # The text is the pod's own.
    cluster.create_pod("uneven", percent(150))
    message = cluster.wait_unschedulable("uneven", f"2 invalid resource device requests: [{CORE} ")
    assert f"{CORE} 150 " in message

    # Who asks rightly is not held up.
    cluster.create_pod("right", percent(50))
    cluster.wait_bound("right")


def test_a_waiting_pod_is_placed_when_another_ends(cluster, add_node, start):
    add_node("n1", gpus(2))
    place(cluster, "old", "n1", percent(60), 0)
    place(cluster, "other", "n1", percent(60), 1)
    daemon = start()
    cluster.create_pod("half", percent(50))
    cluster.wait_unschedulable("half", NO_ROOM)
    # Our daemon has no watch here: tell it first.
    daemon.forget_pod(cluster.namespace, "old")
    cluster.delete_pod("old")
    assert cluster.wait_bound("half")["spec"]["nodeName"] == "n1"


def test_without_the_daemon_nothing_is_bound(cluster, add_node, start):
    """The shipped configuration does not let kube-scheduler go on alone."""
    add_node("n1", gpus(1))
    daemon = start()
    daemon.end()
    cluster.create_pod("half", percent(50))
    cluster.create_pod("plain")
    assert cluster.wait_event("half", "FailedScheduling", "connection refused")
    # The event may come first.
    cluster.wait(lambda: cluster.condition("half").get("reason") == "SchedulerError",
                 "the condition says that it is the scheduler's")
    # Pods without devices are none of our business.
    cluster.wait_bound("plain")
    assert not cluster.pod("half")["spec"].get("nodeName")
    daemon.start()
    cluster.wait_bound("half")


@pytest.fixture
def priorities(cluster):
    """Priority classes low (0), middle (10), urgent (1000) and resident (2000)."""
    names = {"low": 0, "middle": 10, "urgent": 1000, "resident": 2000}
    for name, value in names.items():
        cluster.kubectl("create", "priorityclass", name, "--value", str(value))
    yield
    cluster.kubectl("delete", "priorityclass", *names)


def test_preemption_takes_the_node_where_a_whole_card_gets_free(
        plane, cluster, priorities, start_extender, start_scheduler):
    """Where nodes advertise cards, kube-scheduler itself finds victims and asks us about them.

    On n2 it would take the cheaper victim, and the sum of what is free would do; but no single card
    would be free. So we leave n1."""
    cluster.create_gpu_node("n1", gpus(1), True)
    place(cluster, "victim", "n1", percent(100), 0, priorityClassName="middle")
    cluster.create_gpu_node("n2", gpus(2), True)
    place(cluster, "cheaper", "n2", percent(40), 0, priorityClassName="low")
    place(cluster, "resident-0", "n2", percent(40), 0, priorityClassName="resident")
    place(cluster, "resident-1", "n2", percent(60), 1, priorityClassName="resident")
    daemon = start_extender(cluster.export("nodes", "devices", "pods"))
    start_scheduler(scheduler.without_bind(
        scheduler.shipped("advertised", plane.scheduler_kubeconfig(), daemon.url)))

    cluster.create_pod("urgent", percent(100), priorityClassName="urgent")
    wait_until(lambda: cluster.pod("victim") is None, "the victim on n1 is gone")
    assert cluster.wait_event("victim", "Preempted", "")
    assert cluster.pod("cheaper")["spec"]["nodeName"] == "n2"

    # What a watch would have told us; and something happens that lets kube-scheduler try again.
    daemon.forget_pod(cluster.namespace, "victim")
    cluster.kubectl("annotate", "pod", "urgent", "example.com/try=again")
    assert cluster.wait_bound("urgent")["spec"]["nodeName"] == "n1"


def test_our_words_about_a_bind_reach_the_user(plane, cluster, form, add_node, start_extender,
                                               start_scheduler):
    """With the configuration just as shipped, bind comes to us. We know the nodes, but not this
    pod: nobody told us of it."""
    add_node("n1", gpus(1))
    daemon = start_extender(cluster.export("nodes", "devices"))
    start_scheduler(scheduler.shipped(form, plane.scheduler_kubeconfig(), daemon.url))
    cluster.create_pod("half", percent(50))
    assert cluster.wait_event("half", "FailedScheduling", "PodUID: no pod")
    assert not cluster.pod("half")["spec"].get("nodeName")
