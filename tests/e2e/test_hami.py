# SPDX-License-Identifier: Apache-2.0
"""A cluster that runs HAMi's device plugin and takes us for a scheduler: the plugin registers its nodes,
finds its pod by node and phase, and is played here."""
import json
import threading
import time

import pytest

from stage import objects, scheduler
from stage.api import ApiError
from stage.checker import check
from stage.placement import places
from test_modes import EXPECTED, MODES, delete_all, replicas

CONFIG = "annotations: [koordinator, hami]\npolicy:\n  inFlightWait: 100ms\n"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"


def registered(node, model, mib, cards=4):
    """A Node as HAMi's plugin leaves it: its cards in an annotation, ten names for each in status."""
    made = objects.node(node, allocatable={objects.NVIDIA: str(10 * cards)})
    made["metadata"]["annotations"] = {objects.REGISTER: json.dumps([
        {"id": f"GPU-{node}-{index}", **({"index": index} if index else {}), "count": 10,
         "devmem": mib, "devcore": 100, "type": model, "mode": "hami-core", "health": True}
        for index in range(cards)])}
    return made


class Plugin(threading.Thread):
    """The device plugins of all nodes. `seen`: {pod: what it was told}; `crowded`: moments at which
    two pods of one node had the phase "allocating"."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.seen, self.crowded, self.over = cluster, {}, [], threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            waiting = {}
            for item in self.cluster.pods():
                notes = item["metadata"].get("annotations", {})
                if item["spec"].get("nodeName") and notes.get(PHASE) == "allocating":
                    waiting.setdefault(item["spec"]["nodeName"], []).append(item)
            for node, items in waiting.items():
                if len(items) > 1:
                    self.crowded.append((node, [item["metadata"]["name"] for item in items]))
                self.set_up(node, items[0])

    def set_up(self, node, item):
        notes, name = item["metadata"]["annotations"], item["metadata"]["name"]
        assert notes["hami.io/vgpu-node"] == node
        assert notes[TO_ALLOCATE] == notes[ALLOCATED]
        self.seen[name] = notes[TO_ALLOCATE]
        time.sleep(0.05)  # kubelet's and the plugin's own work
        path = f"/api/v1/namespaces/{self.cluster.namespace}/pods/{name}"
        try:
            self.cluster.api.patch(path, {"metadata": {"annotations": {TO_ALLOCATE: "",
                                                                       PHASE: "success"}}})
        except ApiError as error:
            assert error.status == 404  # it was deleted meanwhile

    def stop(self):
        self.over.set()
        self.join()


@pytest.fixture
def plugin(cluster):
    playing = Plugin(cluster)
    playing.start()
    yield playing
    playing.stop()


@pytest.fixture
def start(plane, cluster, form, start_extender, start_scheduler):
    def begin():
        cluster.api("POST", "/api/v1/nodes", registered("t4", "NVIDIA-Tesla T4", 16384))
        cluster.api("POST", "/api/v1/nodes", registered("a10g", "NVIDIA-NVIDIA A10G", 24576))
        kubeconfig = plane.certificate_kubeconfig("deviceshare", "system:masters",
                                                  cluster.namespace)
        daemon = start_extender(config=CONFIG, flags=["--kubeconfig", kubeconfig])
        start_scheduler(scheduler.shipped(form, plane.scheduler_kubeconfig(), daemon.url))
        return daemon
    return begin


@pytest.mark.parametrize("form", ["advertised"], indirect=True)
@pytest.mark.parametrize("mode", sorted(EXPECTED))
def test_the_four_modes_beside_hamis_plugin(cluster, start, plugin, mode):
    start()
    for _ in range(2):
        created = cluster.create_many(replicas(cluster, MODES / f"mode-{mode}.yaml"))
        cluster.wait_all_bound(len(created))
        check(cluster.api, pods=len(created))
        assert places(cluster.api) in EXPECTED[mode]
        delete_all(cluster)
    assert plugin.crowded == []
    assert all(told.endswith(",NVIDIA,7500,0:;") for told in plugin.seen.values())


@pytest.mark.parametrize("form", ["advertised"], indirect=True)
def test_pods_that_hami_bound_before_are_counted(cluster, start, plugin):
    """One of each T4 is full and one A10G is taken by HAMi's own scheduler before we start."""
    for node, index, mib in (("t4", 0, 16000), ("t4", 1, 16000), ("t4", 2, 16000), ("t4", 3, 16000),
                             ("a10g", 2, 24000)):
        made = cluster.create(objects.pod(f"before-{node}-{index}",
                                          {objects.NVIDIA: 1, objects.HAMI_MEMORY: mib},
                                          schedulerName="hami-scheduler"))
        cluster.bind(made, node, {"hami.io/vgpu-node": node, PHASE: "success",
                                  ALLOCATED: f"GPU-{node}-{index},NVIDIA,{mib},0:;"})
    daemon = start()
    cluster.create_pod("after", {objects.NVIDIA: 1, objects.HAMI_MEMORY: 7500},
                       schedulerName="deviceshare")
    assert cluster.wait_bound("after")["spec"]["nodeName"] == "a10g"
    used = {card["id"]: card["used"].get(objects.MEMORY, 0) >> 20 for card in daemon.node("a10g")["cards"]}
    assert used["GPU-a10g-2"] == 24000 and sorted(used.values()) == [0, 0, 7500, 24000]
    assert not daemon.node("t4")["closed"]
    cluster.create_pod("three", {objects.NVIDIA: 4, objects.HAMI_MEMORY: 7500},
                       schedulerName="deviceshare")
    cluster.wait(lambda: "Insufficient gpu devices" in cluster.why("three"), "it is told why")


@pytest.mark.parametrize("form", ["advertised"], indirect=True)
def test_a_burst_on_one_node(cluster, start, plugin):
    """Many pods for one node: one at a time, and all of them in the end."""
    start()
    annotations = {"nvidia.com/use-gputype": "A10G"}
    made = [objects.pod(f"burst-{number}", {objects.NVIDIA: 1, objects.HAMI_MEMORY: 4000},
                        schedulerName="deviceshare") for number in range(12)]
    for item in made:
        item["metadata"]["annotations"] = annotations
    cluster.create_many(made)
    bound = cluster.wait_all_bound(len(made), seconds=240)
    assert {item["spec"]["nodeName"] for item in bound} == {"a10g"}
    assert plugin.crowded == []
