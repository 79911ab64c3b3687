# SPDX-License-Identifier: Apache-2.0
"""A trace through the live path: what the real kube-scheduler and the daemon allocate of a cluster
that fills up, beside what deviceshare-sim allocates of the same.

The trace of the tree is small. DEVICESHARE_TRACES names a folder with openb/ and orders/: then it is
every fourth node of the openb list and the first 2,000 arrivals of its published order."""
import os
import pathlib

import pytest

from stage import scheduler, trace
from stage.process import PATIENCE

FOLDER = os.environ.get("DEVICESHARE_TRACES")
ARRIVALS = 2000
CONFIG = """policy:
  node: {0}
  device: {0}
  nodeStrength: require
  inFlightWait: 1s
wake:
  enabled: false
"""
# What the shares of a small cluster's pods come to is coarse.
TOLERANCE = 0.5 if FOLDER else 4.0


@pytest.fixture(scope="module")
def arrivals():
    if FOLDER:
        return trace.published(pathlib.Path(FOLDER), ARRIVALS)
    return trace.small()


@pytest.fixture
def play(plane, cluster, arrivals, start_extender, start_scheduler):
    """play(policy): percent of the GPUs that are allocated when all have arrived."""
    def begin(policy):
        nodes, pods, order = arrivals
        for row in nodes:
            cluster.create_device(row["sn"], *trace.cards_of(row))
            cluster.create_node(row["sn"], {trace.MODEL: row["model"]}, trace.allocatable_of(row))
        kubeconfig = plane.certificate_kubeconfig("deviceshare", "system:masters",
                                                  cluster.namespace)
        daemon = start_extender(config=CONFIG.format(policy), flags=["--kubeconfig", kubeconfig])
        start_scheduler(scheduler.asked_about_all(
            scheduler.shipped("advertised", plane.scheduler_kubeconfig(), daemon.url)))
        # In the order of the trace, from its first pod on.
        daemon.wait_open()
        for number, index in enumerate(order):
            cluster.create(trace.pod_of(pods[index], number, schedulerName="deviceshare"))
        wait_until_decided(cluster, len(order))
        bound = {item["metadata"]["name"] for item in cluster.pods() if item["spec"].get("nodeName")}
        used = sum(trace.demand(pods[index]) for number, index in enumerate(order)
                   if f"arrival-{number:05}" in bound)
        print(policy, "bound", len(bound), "of", len(order), "pods")
        return 100 * used / trace.capacity(nodes)
    return begin


def wait_until_decided(cluster, count):
    """Every pod has a node, or was told that there is none for it."""
    def decided(item):
        conditions = item.get("status", {}).get("conditions", [])
        return item["spec"].get("nodeName") or any(
            condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
            for condition in conditions)

    def all_decided():
        return sum(bool(decided(item)) for item in cluster.pods()) == count
    cluster.wait(all_decided, "every pod is decided", PATIENCE + count / 5)


def test_pack_as_in_the_simulator(play, arrivals, tmp_path):
    simulated = trace.simulate(tmp_path, *arrivals, "pack", "--learn", "seen")
    live = play("pack")
    print(f"pack: simulator {simulated:.2f} %, live {live:.2f} %")
    assert live > simulated - TOLERANCE


def test_pack_above_best_fit(play, arrivals, tmp_path):
    simulated = trace.simulate(tmp_path, *arrivals, "bestfit")
    packed = trace.simulate(tmp_path, *arrivals, "pack", "--learn", "seen")
    live = play("binpack")
    print(f"best fit: simulator {simulated:.2f} %, live binpack {live:.2f} %")
    assert live < packed - (TOLERANCE if FOLDER else 0)
