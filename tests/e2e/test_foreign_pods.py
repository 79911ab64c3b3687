# SPDX-License-Identifier: Apache-2.0
"""Pods that run since before the installation: placed by Koordinator, by a scheduler that knows
nothing of cards, or by hand with something that nobody can read."""
import json

import pytest

from stage import scheduler
from stage.checker import judge
from stage.objects import ALLOCATED, CORE, GIB, MEMORY, RATIO, gpus, percent

NO_ROOM = "Insufficient gpu devices"
CLOSED = "node(s) ran device pods on unknown cards"
SOON = 10  # seconds within which a pod that waits is bound once it fits


@pytest.fixture
def add_node(cluster, form):
    """add_node(name, cards): a node that does or does not advertise its cards."""
    return lambda name, cards: cluster.create_gpu_node(name, cards, form == "advertised")


@pytest.fixture
def install(plane, form, follow, start_scheduler):
    """install(): the daemon and its kube-scheduler begin now, with what runs already."""
    def begin(config=""):
        daemon = follow(config)
        start_scheduler(scheduler.shipped(form, plane.scheduler_kubeconfig(), daemon.url))
        return daemon
    return begin


def run(cluster, name, node, request, annotation=None):
    """A pod that somebody else has placed."""
    annotations = {} if annotation is None else {ALLOCATED: annotation}
    cluster.bind(cluster.create_pod(name, request), node, annotations)


def koordinators(*minors, share=50, gib=40):
    """The annotation as koord-scheduler writes it for 80Gi cards."""
    return json.dumps({"gpu": [{"minor": minor, "resources": {
        CORE: str(share), MEMORY: f"{gib}Gi", RATIO: str(share)}} for minor in minors]})


def node_and_cards(cluster, name):
    stored = cluster.pod(name)
    allocated = json.loads(stored["metadata"]["annotations"][ALLOCATED])
    return stored["spec"]["nodeName"], [entry["minor"] for entry in allocated["gpu"]]


def no_card_is_overcommitted(cluster, *foreign):
    """The checker's judgement but for what these pods lack."""
    problems = judge(cluster.api).problems
    assert [problem for problem in problems
            if not any(f"/{name}:" in problem for name in foreign)] == []


def test_koordinators_pods_are_counted_on_their_cards(cluster, add_node, install):
    add_node("n1", gpus(4))
    run(cluster, "half", "n1", percent(50), koordinators(0))
    run(cluster, "two", "n1", {"koordinator.sh/gpu": 200}, koordinators(1, 2, share=100, gib=80))
    daemon = install()
    assert [daemon.card("n1", minor)["used"].get(CORE, 0) for minor in range(4)] == [50, 100, 100, 0]
    assert {pod["trust"] for pod in daemon.node("n1")["pods"]} == {"trusted"}

    cluster.create_pod("whole", percent(100))
    cluster.wait_bound("whole")
    assert node_and_cards(cluster, "whole") == ("n1", [3])
    cluster.create_pod("other-half", percent(50))
    cluster.wait_bound("other-half")
    assert node_and_cards(cluster, "other-half") == ("n1", [0])
    cluster.create_pod("more", percent(10))
    cluster.wait_unschedulable("more", "Insufficient")

    cluster.delete_pod("two")
    cluster.wait_bound("more", SOON)
    assert node_and_cards(cluster, "more")[1][0] in (1, 2)
    no_card_is_overcommitted(cluster, "half")


@pytest.mark.parametrize("annotation", [
    None, "not json",
    # Readable, but of another kind than the pod asks for: its GPU may be any.
    '{"rdma":[{"minor":0,"resources":{"koordinator.sh/rdma":"1"}}]}',
], ids=["none", "garbage", "other-kind"])
def test_a_pod_on_unknown_cards_closes_its_node(cluster, follow, plane, start_scheduler, annotation):
    """Until it ends; the node beside it goes on."""
    for name in ("n1", "n2"):
        cluster.create_gpu_node(name, gpus(1), False)
    run(cluster, "foreign", "n1", percent(50), annotation)
    daemon = follow()
    start_scheduler(scheduler.shipped("not-advertised", plane.scheduler_kubeconfig(), daemon.url))
    assert daemon.node("n1")["closed"] and not daemon.node("n2")["closed"]
    assert daemon.metric("deviceshare_cache_closed_nodes") == 1

    cluster.create_pod("first", percent(60))
    assert cluster.wait_bound("first")["spec"]["nodeName"] == "n2"
    cluster.create_pod("second", percent(50))
    message = cluster.wait_unschedulable("second", CLOSED)
    assert f"1 {NO_ROOM}" in message, "of n2"

    cluster.finish_pod("foreign")
    assert cluster.wait_bound("second", SOON)["spec"]["nodeName"] == "n1"
    assert not daemon.node("n1")["closed"]
    no_card_is_overcommitted(cluster, "foreign")


@pytest.mark.parametrize("form", ["not-advertised"])
def test_a_cluster_that_was_in_use(cluster, add_node, install):
    """All kinds at once, and a daemon that comes and goes: it learns the same again."""
    for name in ("n1", "n2", "n3"):
        add_node(name, gpus(1))
    run(cluster, "koordinators", "n1", percent(50), koordinators(0))
    run(cluster, "bare", "n2", percent(50))
    run(cluster, "garbage", "n3", percent(50), "\u0000{")
    run(cluster, "plain", "n3", None)
    daemon = install()

    def state():
        return sorted((node["name"], node["closed"], [card["used"].get(MEMORY, 0) for card in
                                                      node["cards"]],
                       [(pod["name"], pod["trust"]) for pod in node["pods"]])
                      for node in daemon.cache()["nodes"])

    seen = state()
    assert seen == [("n1", False, [40 * GIB], [("koordinators", "trusted")]),
                    ("n2", True, [0], [("bare", "unknown")]),
                    ("n3", True, [0], [("garbage", "unknown")])]
    daemon.crash()
    daemon.start()
    assert state() == seen

    cluster.create_pod("first", percent(50))
    assert cluster.wait_bound("first")["spec"]["nodeName"] == "n1"
    cluster.create_pod("second", percent(50))
    cluster.wait_unschedulable("second", CLOSED)
    cluster.delete_pod("garbage")
    assert cluster.wait_bound("second", SOON)["spec"]["nodeName"] == "n3"
    cluster.create_pod("third", percent(80))
    cluster.wait_unschedulable("third", "Insufficient")
    cluster.finish_pod("bare", "Failed")
    assert cluster.wait_bound("third", SOON)["spec"]["nodeName"] == "n2"
    no_card_is_overcommitted(cluster, "koordinators", "bare", "garbage")
