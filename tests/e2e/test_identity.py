# SPDX-License-Identifier: Apache-2.0
"""A pod is its UID: what happens to pods and nodes between filter and bind, and calls that name
another pod than they should, or another request than the pod has."""
import concurrent.futures
import copy
import json
import random
import time

import pytest

from stage import scheduler
from stage.caller import Caller
from stage.checker import check
from stage.objects import ALLOCATED, CORE, RATIO, gpus, percent

FORM = "not-advertised"
NO_POD = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def daemon(cluster, follow):
    """Our daemon, with n1 of one card and n2 of two."""
    cluster.create_gpu_node("n1", gpus(1), False)
    cluster.create_gpu_node("n2", gpus(2), False)
    return follow()


@pytest.fixture
def caller(cluster, daemon):
    """Somebody who calls the verbs by hand, as kube-scheduler would; the daemon may bind by now."""
    daemon.wait_open()
    return Caller(daemon.url)


@pytest.fixture
def schedule(plane, daemon, start_scheduler):
    """schedule(): from now on kube-scheduler schedules, and asks the daemon."""
    return lambda: start_scheduler(scheduler.shipped(FORM, plane.scheduler_kubeconfig(), daemon.url))


@pytest.fixture
def written(plane):
    """written(): what the daemon has written about pods so far, as (name, subresource)."""
    mark = plane.audit_mark()

    def entries():
        return [(entry.name, entry.subresource)
                for entry in plane.audit(mark, resource="pods", user="deviceshare")
                if entry.verb in ("create", "update", "patch", "delete")]
    return entries


def known(cluster, daemon, caller, pod):
    """Wait until the daemon's watch has told it of a pending pod: it then knows its request."""
    other = copy.deepcopy(pod)
    other["spec"]["containers"][0]["resources"]["requests"] = {CORE: "1", RATIO: "1"}
    cluster.wait(lambda: caller.filter(other, "n1")["Error"], "the daemon knows the pod")


def booked(daemon):
    """Names of the pods that have cards, by node."""
    return {node["name"]: [pod["name"] for pod in node["pods"]] for node in daemon.cache()["nodes"]}


def gone(cluster, daemon, name, uid):
    cluster.wait(lambda: uid not in json.dumps(daemon.cache()), f"the daemon has forgotten {name}")


# ---- (h) between filter and bind ----

def test_a_pod_is_deleted_between_filter_and_bind(cluster, daemon, caller, written):
    pod = cluster.create_pod("p", percent(100))
    assert caller.filter(pod, "n1", "n2")["NodeNames"] == ["n1", "n2"]
    cluster.delete_pod("p")
    assert caller.bind(pod, "n1") != ""
    assert booked(daemon) == {"n1": [], "n2": []}

    # The name lives again, as somebody else, who wants less; kube-scheduler still means the first.
    again = cluster.create_pod("p", percent(10))
    assert caller.bind(pod, "n1") != ""
    assert not cluster.pod("p")["spec"].get("nodeName")
    assert booked(daemon) == {"n1": [], "n2": []}
    assert caller.bind(again, "n1") == ""
    assert cluster.pod("p")["spec"]["nodeName"] == "n1"
    assert daemon.card("n1", 0)["used"][CORE] == 10
    # What the API server did: at most it was asked about the first, and said no.
    assert set(written()) == {("p", "binding")}
    check(cluster.api, pods=1)


def test_a_bound_pod_is_made_anew_under_its_name(cluster, daemon, schedule):
    schedule()
    cluster.create_pod("p", percent(100))
    first = cluster.wait_bound("p")
    for share in (50, 100, 25):
        cluster.delete_pod("p")
        cluster.create_pod("p", percent(share))
        second = cluster.wait_bound("p")
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        gone(cluster, daemon, "p", first["metadata"]["uid"])
        assert sum(card["used"].get(CORE, 0) for node in daemon.cache()["nodes"]
                   for card in node["cards"]) == share
        first = second
    check(cluster.api, pods=1)


def test_a_node_is_deleted_between_filter_and_bind(cluster, daemon, caller, written):
    pod = cluster.create_pod("p", percent(50))
    assert caller.filter(pod, "n1", "n2")["NodeNames"] == ["n1", "n2"]
    cluster.api.delete("/api/v1/nodes/n1")
    cluster.wait(lambda: not daemon.node("n1")["hasNode"], "the daemon sees it")
    assert caller.bind(pod, "n1") == "node(s) were unknown to the device scheduler"
    assert written() == []
    assert booked(daemon) == {"n1": [], "n2": []}
    assert caller.filter(pod, "n1", "n2")["NodeNames"] == ["n2"]
    assert caller.bind(pod, "n2") == ""
    check(cluster.api, pods=1)


def test_pods_vanish_while_they_are_scheduled(cluster, daemon, schedule):
    """Sixty pods, of which two of three are deleted at some moment of their way; half of those come
    again under their names. What is left is bound, and nothing is booked for anybody else."""
    schedule()
    dice = random.Random(8)

    def life(number):
        name = f"p-{number}"
        cluster.create_pod(name, percent(15))
        if number % 3 == 0:
            return
        time.sleep(pauses[number])
        cluster.delete_pod(name)
        if number % 3 == 1:
            cluster.create_pod(name, percent(15))

    pauses = [dice.uniform(0, 0.06) for _ in range(60)]
    # Six fit on a card, so not all of them find room at once: 18 of 40 in the end.
    for first in range(0, 60, 6):
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(life, range(first, first + 6)))

    # kube-apiserver may take a second pod away with the first: a status patch that began before the
    # deletion and ends after it deletes what has the name by then (seen in the audit log of 1.36).
    left = {pod["metadata"]["name"] for pod in cluster.pods()}
    assert {f"p-{number}" for number in range(0, 60, 3)} <= left
    assert left <= {f"p-{number}" for number in range(60) if number % 3 != 2}
    cluster.wait(lambda: len([pod for pod in cluster.pods() if pod["spec"].get("nodeName")]) == 18,
                 "the cards are full")
    check(cluster.api, pods=18)
    bound = {pod["metadata"]["uid"] for pod in cluster.pods() if pod["spec"].get("nodeName")}
    cluster.wait(lambda: {pod["uid"] for node in daemon.cache()["nodes"]
                          for pod in node["pods"]} == bound, "nothing else is booked")


# ---- (i) calls that are not what they seem ----

def test_a_bind_with_a_wrong_uid(cluster, daemon, caller, written):
    pod = cluster.create_pod("p", percent(50))
    other = cluster.create_pod("other", percent(10))
    known(cluster, daemon, caller, pod)
    for uid in (NO_POD, other["metadata"]["uid"], ""):
        assert caller.bind(pod, "n1", PodUID=uid) != "", uid
    assert caller.bind(pod, "n1", PodName="other") != ""
    assert caller.bind(pod, "n1", PodNamespace="default") != ""
    assert written() == [], "nothing was even tried"
    assert booked(daemon) == {"n1": [], "n2": []}
    assert not [pod for pod in cluster.pods() if pod["spec"].get("nodeName")]
    assert caller.bind(pod, "n1") == ""
    assert caller.bind(other, "n1") == ""
    check(cluster.api, pods=2)


def test_a_filter_with_a_smaller_request_than_the_pod_has(cluster, daemon, caller):
    """Whoever makes filter believe in a smaller request gets a node on which the pod does not fit."""
    pod = cluster.create_pod("p", percent(100))
    small = cluster.create_pod("small", percent(60))
    known(cluster, daemon, caller, pod)
    known(cluster, daemon, caller, small)
    assert caller.bind(small, "n1") == ""
    before = daemon.metric("deviceshare_filter_body_differs_total")

    forged = copy.deepcopy(pod)
    forged["spec"]["containers"][0]["resources"]["requests"] = {CORE: "10", RATIO: "10"}
    nothing = copy.deepcopy(pod)
    nothing["spec"]["containers"][0]["resources"] = {}
    renamed = copy.deepcopy(pod)
    renamed["metadata"]["name"] = "another"
    for body in (forged, nothing, renamed):
        answer = caller.filter(body, "n1")
        assert "differ from the stored pod" in answer["Error"] and not answer["NodeNames"]
    assert daemon.metric("deviceshare_filter_body_differs_total") == before + 3

    # And bind decides by what the API server said, whatever filter was told.
    assert caller.filter(pod, "n1")["FailedNodes"] == {"n1": "Insufficient gpu devices"}
    assert caller.bind(pod, "n1") == "Insufficient gpu devices"
    assert caller.bind(pod, "n2") == ""
    allocated = json.loads(cluster.pod("p")["metadata"]["annotations"][ALLOCATED])
    assert allocated["gpu"][0]["resources"][CORE] == "100"
    check(cluster.api, pods=2)
