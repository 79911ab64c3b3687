# SPDX-License-Identifier: Apache-2.0
"""The checker finds what it is there to find. Needs no control plane."""
import copy
import json

import pytest

from stage import objects
from stage.checker import Verdict, device_request, quantity
from stage.objects import ALLOCATED, CORE, GIB, MEMORY, NVIDIA, RATIO, RDMA, SHARED, VISIBLE

DEVICES = [objects.device("n1", objects.gpu(0), objects.gpu(1), objects.nic(0))]


def share(core, ratio, memory):
    return {CORE: str(core), MEMORY: str(memory), RATIO: str(ratio)}


def entry(minor, resources, ident=None):
    return {"minor": minor, "resources": resources, "id": ident or f"GPU-{minor:08x}"}


def bound(name, request, allocation, visible):
    pod = objects.pod(name, request, nodeName="n1")
    pod["metadata"].update(namespace="default", annotations={ALLOCATED: json.dumps(allocation)})
    if visible:
        pod["metadata"]["annotations"][VISIBLE] = visible
    pod["status"] = {"phase": "Running"}
    return pod


def good_pods():
    return [
        bound("half", objects.percent(50), {"gpu": [entry(0, share(50, 50, 40 * GIB))]},
              "GPU-00000000"),
        bound("bytes", {CORE: 10, MEMORY: "1Gi"}, {"gpu": [entry(0, share(10, 1, "1Gi"))]},
              "GPU-00000000"),
        bound("whole", {NVIDIA: 1}, {"gpu": [entry(1, share(100, 100, "80Gi"))]}, "GPU-00000001"),
        bound("network", {RDMA: 30},
              {"rdma": [{"minor": 0, "resources": {RDMA: "30"}, "id": "0000:01:00.0"}]}, None),
    ]


def allocation_of(pod):
    return json.loads(pod["metadata"]["annotations"][ALLOCATED])


def reallocate(pod, allocation):
    pod["metadata"]["annotations"][ALLOCATED] = json.dumps(allocation)


def test_nothing_is_wrong_with_a_good_cluster():
    verdict = Verdict(DEVICES, good_pods())
    assert verdict.problems == []
    assert verdict.pods == 4
    assert verdict.used[("n1", "gpu", 0)] == {CORE: 60, MEMORY: 41 * GIB, RATIO: 51}


def test_several_cards_of_one_pod():
    two = bound("two", {SHARED: 2, CORE: 100, RATIO: 100},
                {"gpu": [entry(0, share(50, 50, "40Gi")), entry(1, share(50, 50, "40Gi"))]},
                "GPU-00000000,GPU-00000001")
    assert Verdict(DEVICES, [two]).problems == []


def no_annotation(pods):
    del pods[0]["metadata"]["annotations"]


def not_json(pods):
    pods[0]["metadata"]["annotations"][ALLOCATED] = "{"


def no_node(pods):
    del pods[0]["spec"]["nodeName"]


def too_little(pods):
    reallocate(pods[0], {"gpu": [entry(0, share(50, 49, 40 * GIB))]})


def rounded_up(pods):
    reallocate(pods[1], {"gpu": [entry(0, share(10, 2, "1Gi"))]})


def a_card_too_many(pods):
    reallocate(pods[0], {"gpu": [entry(0, share(50, 50, "40Gi")), entry(1, share(50, 50, "40Gi"))]})


def another_kind_too(pods):
    rdma = {"minor": 0, "resources": {RDMA: "30"}, "id": "0000:01:00.0"}
    reallocate(pods[0], {**allocation_of(pods[0]), "rdma": [rdma]})


def no_such_card(pods):
    reallocate(pods[0], {"gpu": [entry(7, share(50, 50, "40Gi"))]})


def wrong_id(pods):
    reallocate(pods[0], {"gpu": [entry(0, share(50, 50, "40Gi"), "GPU-00000001")]})


def wrong_visible(pods):
    pods[0]["metadata"]["annotations"][VISIBLE] = "GPU-00000001"


def core_over(pods):
    for index in range(2):
        pods.append(bound(f"c{index}", {CORE: 50, RATIO: 1},
                          {"gpu": [entry(0, share(50, 1, 80 * GIB // 100))]}, "GPU-00000000"))


def memory_over(pods):
    # 51 % are taken; 49 % and a few bytes more round down to 49 %.
    amount = 39 * GIB + 256 * 1024 * 1024
    pods.append(bound("m", {CORE: 1, MEMORY: amount}, {"gpu": [entry(0, share(1, 49, amount))]},
                      "GPU-00000000"))


def whole_and_shared(pods):
    pods.append(bound("tiny", {CORE: 0, MEMORY: "1Mi"},
                      {"gpu": [entry(1, share(0, 0, "1Mi"))]}, "GPU-00000001"))


@pytest.mark.parametrize("break_it, text", [
    (no_annotation, "without cards"),
    (not_json, "unreadable"),
    (no_node, "no node"),
    (too_little, "asked for"),
    (rounded_up, "asked for"),
    (a_card_too_many, "asks for 1 gpu"),
    (another_kind_too, "asks for 0 rdma"),
    (no_such_card, "does not exist"),
    (wrong_id, "its id is"),
    (wrong_visible, "shows"),
    (core_over, "160 of 100 koordinator.sh/gpu-core"),
    (memory_over, "koordinator.sh/gpu-memory given"),
    (whole_and_shared, "as a whole and shared"),
])
def test_a_problem_is_found(break_it, text):
    pods = copy.deepcopy(good_pods())
    break_it(pods)
    problems = Verdict(DEVICES, pods).problems
    assert any(text in problem for problem in problems), problems


def test_finished_pods_hold_nothing():
    pods = good_pods()
    for pod in pods:
        pod["status"]["phase"] = "Succeeded"
    verdict = Verdict(DEVICES, pods)
    assert verdict.problems == [] and not verdict.used


def test_effective_request_of_a_pod():
    def container(amount, **more):
        return {"resources": {"requests": {CORE: str(amount)}}, **more}
    spec = {"initContainers": [container(10, restartPolicy="Always"), container(80)],
            "containers": [container(20), container(30)]}
    assert device_request({"spec": spec}) == {CORE: 90}


@pytest.mark.parametrize("text, value", [
    ("100", 100), (7, 7), ("80Gi", 80 * GIB), ("1k", 1000), ("1e3", 1000), ("1500m", 2),
    ("0.5Gi", GIB // 2), ("107374182400m", 107374183)])
def test_quantities(text, value):
    assert quantity(text) == value
