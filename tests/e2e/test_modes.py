# SPDX-License-Identifier: Apache-2.0
"""Where pods go on real parts: the four modes of two axes, as config/examples/modes ships them, and
bursts in which each decision must see the one before it."""
import json
import os

import pytest

from stage import parts, scheduler
from stage.checker import check
from stage.objects import MEMORY, gpus, percent, pod
from stage.placement import places, wish

MODES = parts.ROOT / "config" / "examples" / "modes"
RUNS = int(os.environ.get("MODE_RUNS", "5"))
# Parts that share two cores with others are late by more than the default of 5 ms now and then.
PATIENT = "policy:\n  inFlightWait: 100ms\n"


@pytest.fixture
def start(plane, cluster, form, start_extender, start_scheduler):
    """start(config=PATIENT): the daemon on the API server, and a kube-scheduler with default plugins
    that asks it for everything. The daemon."""
    def begin(config=PATIENT):
        kubeconfig = plane.certificate_kubeconfig("deviceshare", "system:masters",
                                                  cluster.namespace)
        daemon = start_extender(config=config, flags=["--kubeconfig", kubeconfig])
        start_scheduler(scheduler.shipped(form, plane.scheduler_kubeconfig(), daemon.url))
        return daemon
    return begin


def replicas(cluster, path):
    """The pods that a Deployment's manifest asks for, without a controller that makes them."""
    deployment = json.loads(cluster.kubectl("create", "--filename", str(path),
                                            "--dry-run=client", "--output", "json"))
    template = deployment["spec"]["template"]
    # No kubelet runs here that would need it.
    template["spec"]["terminationGracePeriodSeconds"] = 0
    return [{"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
             "metadata": {**template["metadata"], "name": f"replica-{number}"}}
            for number in range(deployment["spec"]["replicas"])]


EXPECTED = {
    "a": [{"t4": [2, 2]}, {"a10g": [3, 1]}],
    "b": [{"t4": [2], "a10g": [2]}],
    "c": [{"t4": [1, 1, 1, 1]}, {"a10g": [1, 1, 1, 1]}],
    "d": [{"t4": [1, 1], "a10g": [1, 1]}],
}


def in_koordinators_words(pods):
    """The same wish in the other dialect."""
    for item in pods:
        item["spec"]["containers"][0]["resources"]["limits"] = {MEMORY: "7500Mi"}
    return pods


@pytest.mark.parametrize("mode", sorted(EXPECTED))
@pytest.mark.parametrize("dialect", [list, in_koordinators_words], ids=["hami", "koordinator"])
def test_the_four_modes(cluster, start, mode, dialect):
    cluster.kubectl("apply", "--filename", str(MODES / "nodes.yaml"))
    start()
    for _ in range(RUNS):
        created = cluster.create_many(dialect(replicas(cluster, MODES / f"mode-{mode}.yaml")))
        cluster.wait_all_bound(len(created))
        check(cluster.api, pods=len(created))
        assert places(cluster.api) in EXPECTED[mode]
        delete_all(cluster)


def warm_up(cluster, request):
    """A new process does not bind at once; what comes later is a burst."""
    cluster.create_pod("first", request)
    cluster.wait_bound("first")
    delete_all(cluster)


def delete_all(cluster):
    for item in cluster.pods():
        cluster.delete_pod(item["metadata"]["name"])
    cluster.wait(lambda: not cluster.pods(), "the pods are gone")


def burst(cluster, start, node, device, request, count=300, nodes=10, cards=8):
    """So many pods at once on nodes that are all alike: what places() sees, and the share of binds
    that were refused for lack of devices."""
    for number in range(nodes):
        cluster.create_gpu_node(f"n{number}", gpus(cards), True)
    daemon = start()
    warm_up(cluster, request)
    cluster.create_many([wish(pod(f"burst-{number}", request), node, device)
                         for number in range(count)])
    cluster.wait_all_bound(count)
    check(cluster.api, pods=count)
    refused = daemon.sample("scheduler_deviceshare_allocations_total", result="refused")
    for name, labels in (("deviceshare_filter_waits_total", {"result": "arrived"}),
                         ("deviceshare_filter_waits_total", {"result": "timeout"}),
                         ("deviceshare_tentative_bookings_total", {}),
                         ("deviceshare_tentative_bookings_expired_total", {})):
        print(name, labels, daemon.sample(name, **labels))
    return places(cluster.api), refused / count


@pytest.mark.parametrize("form", ["advertised"], indirect=True)
def test_a_burst_of_spread_pods_spreads_exactly(cluster, start):
    found, refused = burst(cluster, start, "spread", "spread", percent(10))
    assert {node: sum(counts) for node, counts in found.items()} == \
        {f"n{number}": 30 for number in range(10)}
    assert all(counts == [4] * 6 + [3] * 2 for counts in found.values()), found
    assert refused < 0.01


@pytest.mark.parametrize("form", ["advertised"], indirect=True)
def test_a_burst_of_binpack_pods_fills_card_by_card(cluster, start):
    found, refused = burst(cluster, start, "binpack", "binpack", percent(25))
    full = sorted(found.values(), reverse=True)
    assert full == [[4] * 8] * 9 + [[4] * 3], found
    assert refused < 0.01


@pytest.mark.parametrize("form", ["advertised"], indirect=True)
def test_each_decision_sees_the_one_before(cluster, start):
    # As many pods as nodes: one that does not see its forerunner meets it, and nothing mends that.
    names = [f"n{number}" for number in range(10)]
    for name in names:
        cluster.create_gpu_node(name, gpus(1), True)
    start()
    warm_up(cluster, percent(10))
    for _ in range(4 * RUNS):
        cluster.create_many([wish(pod(f"pod-{name}", percent(10)), "spread", "spread")
                             for name in names])
        cluster.wait_all_bound(len(names))
        assert places(cluster.api) == {name: [1] for name in names}
        delete_all(cluster)
