# SPDX-License-Identifier: Apache-2.0
"""The life of a pod, from filter to the day its cards are free again."""
import concurrent.futures
import json

import pytest

from support import (ALLOCATED, GIB, VISIBLE, device, gpu, gpu_node, node, percent, pod, wait_until)

NODES = ["n1", "n2"]
NO_POD = "11111111-2222-3333-4444-555555555555"  # a UID that no pod has


def test_filter_prioritize_bind(daemon):
    daemon.apply(pod("p", percent(50)))
    stored = daemon.pod("p")
    answer = daemon.filter(stored, NODES)
    assert set(answer) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes",
                           "Error"}
    assert answer["Nodes"] is None and answer["Error"] == ""
    assert answer["NodeNames"] == NODES
    assert daemon.prioritize(stored, NODES) == {"n1": 10, "n2": 10}
    assert daemon.used_core("n1") == [0, 0], "neither of them books"

    assert daemon.bind(stored, "n1") == ""
    bound = daemon.pod("p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"][ALLOCATED] == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50",'
        '"koordinator.sh/gpu-memory":"40Gi","koordinator.sh/gpu-memory-ratio":"50"},'
        '"id":"GPU-00000000"}]}')
    assert bound["metadata"]["annotations"][VISIBLE] == "GPU-00000000"
    card = daemon.cached_node("n1")["cards"][0]
    assert card["used"] == {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory": 40 * GIB,
                            "koordinator.sh/gpu-memory-ratio": 50}
    assert [entry["name"] for entry in daemon.cached_node("n1")["pods"]] == ["p"]


def test_spread_prefers_the_emptier_node(daemon):
    daemon.apply(pod("a", percent(50)), pod("b", percent(50)))
    assert daemon.bind(daemon.pod("a"), "n1") == ""
    scores = daemon.prioritize(daemon.pod("b"), NODES)
    assert scores == {"n1": 0, "n2": 10}


def test_second_bind(daemon):
    daemon.apply(pod("p", percent(50)))
    stored = daemon.pod("p")
    assert daemon.bind(stored, "n1") == ""
    assert daemon.bind(stored, "n1") == "", "the same again is not an error"
    assert daemon.used_core("n1") == [50, 0], "and books nothing again"
    assert daemon.bind(stored, "n2") != "", "another node is one"
    assert daemon.used_core("n2") == [0, 0]
    assert daemon.pod("p")["spec"]["nodeName"] == "n1"


def test_parallel_binds_never_share_a_whole_card(daemon):
    """12 pods that want a whole card, 4 cards: 4 are bound, each to a card of its own."""
    names = [f"w{i}" for i in range(12)]
    daemon.apply(*[pod(name, {"nvidia.com/gpu": "1"}) for name in names])
    stored = {name: daemon.pod(name) for name in names}
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        errors = list(pool.map(lambda i: daemon.bind(stored[names[i]], NODES[i % 2]), range(12)))
    assert errors.count("") == 4
    assert set(errors) == {"", "Insufficient gpu devices"}
    taken = set()
    for name in names:
        bound = daemon.pod(name)
        if bound["spec"].get("nodeName"):
            cards = json.loads(bound["metadata"]["annotations"][ALLOCATED])["gpu"]
            taken.update((bound["spec"]["nodeName"], card["minor"]) for card in cards)
    assert len(taken) == 4


def test_nothing_fits(daemon):
    daemon.apply(pod("a", percent(200)), pod("b", percent(200)), pod("c", percent(50)),
                 pod("big", percent(300)))
    assert daemon.bind(daemon.pod("a"), "n1") == ""
    assert daemon.bind(daemon.pod("b"), "n2") == ""
    answer = daemon.filter(daemon.pod("c"), [*NODES, "unknown"])
    assert answer["NodeNames"] == []
    assert answer["FailedNodes"] == {"n1": "Insufficient gpu devices",
                                     "n2": "Insufficient gpu devices"}
    assert set(answer["FailedAndUnresolvableNodes"]) == {"unknown"}
    answer = daemon.filter(daemon.pod("big"), NODES)
    assert answer["FailedNodes"] == {}
    assert set(answer["FailedAndUnresolvableNodes"]) == set(NODES), "never here"


def test_invalid_request_is_told_alike_everywhere(daemon):
    daemon.apply(pod("bad", percent(150)))
    answer = daemon.filter(daemon.pod("bad"), [*NODES, "unknown"])
    assert answer["NodeNames"] == [] and answer["FailedNodes"] == {} and answer["Error"] == ""
    texts = answer["FailedAndUnresolvableNodes"]
    assert set(texts) == {*NODES, "unknown"}
    assert len(set(texts.values())) == 1
    text = texts["n1"]
    assert text.startswith("invalid resource device requests: [koordinator.sh/gpu-core "
                           "koordinator.sh/gpu-memory-ratio]: ")
    assert "150" in text
    assert daemon.bind(daemon.pod("bad"), "n1") != ""


def test_request_past_64_bits_is_its_owners_mistake(daemon):
    """The API server stores 12E; a body with it is no broken call."""
    daemon.apply(pod("p", {"koordinator.sh/gpu-memory": "12E"}))
    stored = daemon.pod("p")
    answer = daemon.filter(stored, ["n1", "n2", "nowhere"])
    assert answer["Error"] == "" and answer["NodeNames"] == [] and answer["FailedNodes"] == {}
    never = answer["FailedAndUnresolvableNodes"]
    assert set(never) == {"n1", "n2", "nowhere"} and len(set(never.values())) == 1
    text = never["n1"]
    assert text.startswith("invalid resource unit ")
    assert "koordinator.sh/gpu-memory" in text and "12E" in text and "64 bits" in text
    assert daemon.prioritize(stored, ["n1", "n2"]) == {"n1": 10, "n2": 10}
    assert daemon.bind(stored, "n1") != ""


def test_pod_without_devices(daemon):
    daemon.apply(pod("plain"))
    answer = daemon.filter(daemon.pod("plain"), NODES)
    assert answer["NodeNames"] == NODES
    assert set(daemon.prioritize(daemon.pod("plain"), NODES).values()) == {10}
    assert daemon.bind(daemon.pod("plain"), "n1") == ""
    bound = daemon.pod("plain")
    assert bound["spec"]["nodeName"] == "n1"
    assert ALLOCATED not in bound["metadata"].get("annotations", {})


def finished(daemon, phase):
    stored = daemon.pod("p")
    stored["status"]["phase"] = phase
    daemon.apply(stored)


@pytest.mark.parametrize("end", [
    lambda daemon: finished(daemon, "Succeeded"),
    lambda daemon: finished(daemon, "Failed"),
    lambda daemon: daemon.delete("/embedded/pods/default/p")])
def test_the_end_of_a_pod_frees_its_cards(daemon, end):
    daemon.apply(pod("p", percent(200)), pod("next", percent(200)))
    assert daemon.bind(daemon.pod("p"), "n1") == ""
    assert daemon.used_core("n1") == [100, 100]
    assert daemon.bind(daemon.pod("next"), "n1") == "Insufficient gpu devices"
    end(daemon)
    assert daemon.used_core("n1") == [0, 0]
    assert daemon.bind(daemon.pod("next"), "n1") == ""


def test_terminating_pod_holds_its_cards(daemon):
    daemon.apply(pod("p", percent(200)))
    assert daemon.bind(daemon.pod("p"), "n1") == ""
    stored = daemon.pod("p")
    stored["metadata"]["deletionTimestamp"] = "2026-11-29T12:00:00Z"
    daemon.apply(stored)
    assert daemon.used_core("n1") == [100, 100]
    assert daemon.delete("/embedded/pods/default/p").status == 200
    assert daemon.used_core("n1") == [0, 0]


def test_cards_that_go_and_come_back(daemon):
    daemon.apply(pod("p", percent(200)), pod("next", percent(100)))
    assert daemon.bind(daemon.pod("p"), "n1") == ""
    assert daemon.delete("/embedded/devices/n1").status == 200
    answer = daemon.filter(daemon.pod("next"), ["n1"])
    assert set(answer["FailedAndUnresolvableNodes"]) == {"n1"}
    daemon.apply(device("n1"))
    assert daemon.used_core("n1") == [100, 100], "the booking outlived the Device object"
    assert set(daemon.filter(daemon.pod("next"), ["n1"])["FailedNodes"]) == {"n1"}


def test_node_that_goes_and_comes_back(daemon):
    daemon.apply(pod("p", percent(100)), pod("next", percent(200)))
    assert daemon.bind(daemon.pod("p"), "n1") == ""
    assert daemon.delete("/embedded/nodes/n1").status == 200
    answer = daemon.filter(daemon.pod("next"), ["n1"])
    assert set(answer["FailedAndUnresolvableNodes"]) == {"n1"}
    daemon.apply(node("n1"))
    assert daemon.used_core("n1") == [100, 0]
    assert set(daemon.filter(daemon.pod("next"), ["n1"])["FailedNodes"]) == {"n1"}


def test_unhealthy_card_is_not_chosen(daemon):
    sick = device("n1")
    sick["spec"]["devices"] = [gpu(0, health=False), gpu(1)]
    daemon.apply(sick, pod("p", percent(50)))
    assert daemon.bind(daemon.pod("p"), "n1") == ""
    assert daemon.pod("p")["metadata"]["annotations"][VISIBLE] == "GPU-00000001"


def test_a_tentative_booking_ends_by_itself(daemon):
    """Nothing else is asked for meanwhile."""
    daemon.apply(pod("held", percent(50)))
    assert daemon.filter(daemon.pod("held"), ["n1"])["NodeNames"] == ["n1"]
    assert "deviceshare_tentative_bookings_total 1" in daemon.get("/metrics").body.decode()
    wait_until(lambda: daemon.cached_node("n1")["pods"] == [], "it ends")
    assert "deviceshare_tentative_bookings_expired_total 1" in daemon.get("/metrics").body.decode()


def test_a_namespace_says_the_defaults_of_its_pods(start):
    """A card of n1 is half taken: binpack goes there, spread to the other node."""
    spread = {"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "apart", "labels": {"deviceshare.io/node-policy": "spread",
                                    "deviceshare.io/node-policy-strength": "require"}}}
    daemon = start(gpu_node("n1") + gpu_node("n2") + [
        pod("old", percent(50)), pod("p", percent(10), "apart"), pod("p", percent(10)), spread],
                   config="policy:\n  node: binpack\n  nodeStrength: require\n")
    assert daemon.bind(daemon.pod("old"), "n1") == ""
    assert daemon.filter(daemon.pod("p"), NODES)["NodeNames"] == ["n1"]
    assert daemon.filter(daemon.pod("p", "apart"), NODES)["NodeNames"] == ["n2"]
    spread["metadata"]["labels"]["deviceshare.io/node-policy"] = "binpack"
    daemon.apply(spread)
    assert daemon.filter(daemon.pod("p", "apart"), NODES)["NodeNames"] == ["n1"]


def test_forged_filter_body(daemon):
    daemon.apply(pod("p", percent(50)))
    stored = daemon.pod("p")
    forged = json.loads(json.dumps(stored))
    for part in ("limits", "requests"):
        forged["spec"]["containers"][0]["resources"][part] = percent(10)
    answer = daemon.filter(forged, NODES)
    assert answer["Error"] != "" and not answer["NodeNames"]
    assert 'deviceshare_filter_body_differs_total 1' in daemon.get("/metrics").body.decode()
    forged = json.loads(json.dumps(stored))
    forged["metadata"]["name"] = "q"
    assert daemon.filter(forged, NODES)["Error"] != ""
    assert daemon.filter(stored, NODES)["Error"] == ""


@pytest.mark.parametrize("asked, other", [("150", "160"), ("9" * 30, "8" * 30), ("150", "9" * 30)])
def test_forged_filter_body_of_an_invalid_pod(daemon, asked, other):
    """Both are invalid, and one of them is not what the pod asks for."""
    daemon.apply(pod("p", {"koordinator.sh/gpu": asked}))
    stored = daemon.pod("p")
    answer = daemon.filter(stored, NODES)
    assert answer["Error"] == "" and not answer["NodeNames"]
    assert all("invalid resource unit" in why
               for why in answer["FailedAndUnresolvableNodes"].values())
    forged = json.loads(json.dumps(stored))
    for part in ("limits", "requests"):
        forged["spec"]["containers"][0]["resources"][part] = {"koordinator.sh/gpu": other}
    assert "differ from the stored pod" in daemon.filter(forged, NODES)["Error"]
    assert 'deviceshare_filter_body_differs_total 1' in daemon.get("/metrics").body.decode()


def test_filter_of_a_pod_that_is_not_known_yet(daemon):
    stranger = pod("stranger", percent(50), metadata={"uid": NO_POD})
    assert daemon.filter(stranger, NODES)["NodeNames"] == NODES
    assert daemon.bind(stranger, "n1") != ""


@pytest.mark.parametrize("changes", [
    {"PodUID": NO_POD}, {"PodName": "q"},
    {"PodNamespace": "other"}, {"PodName": "other"}, {"PodUID": ""}, {"Node": ""},
    {"Node": "no-such-node"}, {"Node": "../n1"}, {"PodName": "p/../q"}])
def test_bind_of_what_does_not_belong_together(daemon, changes):
    daemon.apply(pod("p", percent(50)), pod("other", percent(10)))
    assert daemon.bind(daemon.pod("p"), "n1", **changes) != ""
    assert daemon.used_core("n1") == [0, 0]
    for name in ("p", "other"):
        assert "nodeName" not in daemon.pod(name)["spec"]
    assert daemon.bind(daemon.pod("p"), "n1") == "", "and the pod can still be bound"


def test_whole_nodes_and_names_give_the_same_decisions(daemon):
    daemon.apply(pod("a", percent(200)), pod("p", percent(50)))
    assert daemon.bind(daemon.pod("a"), "n1") == ""
    stored = daemon.pod("p")
    nodes = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
             for item in daemon.objects("Node")]
    nodes[1]["status"] = {"allocatable": {"cpu": "8"}, "x\u2028": [1.5e300, "\u0000"]}
    by_node = daemon.post("/filter", {"Pod": stored, "NodeNames": None,
                                      "Nodes": {"metadata": {}, "items": nodes}}).json
    by_name = daemon.filter(stored, NODES)
    assert by_name["NodeNames"] == ["n2"]
    assert by_node["NodeNames"] is None
    assert by_node["Nodes"]["items"] == [nodes[1]], "as received"
    answer = daemon.post("/prioritize", {"Pod": stored, "NodeNames": None,
                                         "Nodes": {"metadata": {}, "items": nodes}})
    assert {entry["Host"]: entry["Score"] for entry in answer.json} == daemon.prioritize(stored,
                                                                                         NODES)
    big = pod("big", percent(300), metadata={"uid": NO_POD})
    by_node = daemon.post("/filter", {"Pod": big, "Nodes": {"items": nodes}}).json
    by_name = daemon.filter(big, NODES)
    for key in ("FailedNodes", "FailedAndUnresolvableNodes"):
        assert by_node[key] == by_name[key]


def test_preempt_keeps_nodes_that_the_victims_free(daemon):
    daemon.apply(pod("v1", percent(200)), pod("v2", percent(100)), pod("v3", percent(100)),
                 pod("p", percent(200)))
    assert daemon.bind(daemon.pod("v1"), "n1") == ""
    assert daemon.bind(daemon.pod("v2"), "n2") == ""
    assert daemon.bind(daemon.pod("v3"), "n2") == ""
    uid = {name: daemon.pod(name)["metadata"]["uid"] for name in ("v1", "v2", "v3")}
    victims = {"n1": {"Pods": [{"UID": uid["v1"]}], "NumPDBViolations": 1},
               "n2": {"Pods": [{"UID": uid["v2"]}], "NumPDBViolations": 0}}
    body = {"Pod": daemon.pod("p"), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    answer = daemon.post("/preempt", body)
    assert answer.status == 200
    assert answer.json == {"NodeNameToMetaVictims": {"n1": victims["n1"]}}
    full = {name: {"Pods": [daemon.pod(victim)], "NumPDBViolations": number}
            for name, victim, number in (("n1", "v1", 1), ("n2", "v2", 0))}
    body = {"Pod": daemon.pod("p"), "NodeNameToVictims": full, "NodeNameToMetaVictims": None}
    assert daemon.post("/preempt", body).json == answer.json
    assert daemon.used_core("n1") == [100, 100], "nothing is given back for real"


def test_pods_that_ran_before_the_daemon(start):
    annotation = json.dumps({"gpu": [{"minor": 1, "resources": {
        "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "40Gi",
        "koordinator.sh/gpu-memory-ratio": "50"}}]})
    known = pod("known", percent(50), metadata={"annotations": {ALLOCATED: annotation}},
                spec={"nodeName": "n1"}, status={"phase": "Running"})
    unknown = pod("unknown", percent(50), spec={"nodeName": "n2"}, status={"phase": "Running"})
    daemon = start(gpu_node("n1") + gpu_node("n2") + [known, unknown, pod("p", percent(50))])
    assert daemon.used_core("n1") == [0, 50]
    assert daemon.cached_node("n1")["pods"][0]["trust"] == "trusted"
    assert daemon.cached_node("n2")["closed"] is True
    answer = daemon.filter(daemon.pod("p"), NODES)
    assert answer["NodeNames"] == ["n1"]
    assert daemon.delete("/embedded/pods/default/unknown").status == 200
    assert daemon.filter(daemon.pod("p"), NODES)["NodeNames"] == NODES


def test_edited_annotation_is_drift_not_truth(daemon):
    daemon.apply(pod("p", percent(50)))
    assert daemon.bind(daemon.pod("p"), "n1") == ""
    stored = daemon.pod("p")
    annotations = stored["metadata"]["annotations"]
    annotations[ALLOCATED] = annotations[ALLOCATED].replace('"minor":0', '"minor":1')
    daemon.apply(stored)
    assert daemon.used_core("n1") == [50, 0]
    assert daemon.cached_node("n1")["pods"][0]["drifted"] is True
    assert 'deviceshare_allocation_drift_total{kind="edited"} 1' in daemon.get(
        "/metrics").body.decode()


def test_same_objects_same_state_after_a_restart(start, tmp_path):
    """What the cluster holds, loaded by a new daemon, gives the same bookings."""
    first = start(gpu_node("n1") + gpu_node("n2") +
                  [pod(f"p{i}", percent(core)) for i, core in enumerate((50, 25, 100, 30, 200))])
    for i in range(5):
        first.schedule(f"p{i}", NODES)
    dump = tmp_path / "dump.yaml"
    dump.write_bytes(first.get("/embedded/manifests").body)
    second = start(dump)

    def bookings(daemon):
        view = daemon.cache()["nodes"]
        for entry in view:
            for booked in entry["pods"]:
                booked.pop("state")
                booked.pop("confirmed")
        return view
    assert bookings(second) == bookings(first)
    assert second.objects() == first.objects()


def test_policies_of_the_configuration(start):
    manifests = gpu_node("n1") + [pod("a", percent(75)), pod("b", percent(50)),
                                  pod("c", percent(25))]
    daemon = start(manifests, config="policy:\n  device: binpack\n")
    for name in "abc":
        assert daemon.bind(daemon.pod(name), "n1") == ""
    assert daemon.used_core("n1") == [100, 50]
    daemon = start(manifests, config="policy:\n  device: spread\n")
    for name in "abc":
        assert daemon.bind(daemon.pod(name), "n1") == ""
    assert daemon.used_core("n1") == [75, 75]


def test_kube_scheduler_retries_until_there_is_room(daemon):
    daemon.apply(pod("a", percent(200)), pod("b", percent(200)), pod("c", percent(200)))
    assert {daemon.schedule("a", NODES), daemon.schedule("b", NODES)} == set(NODES)
    assert daemon.schedule("c", NODES) is None
    assert daemon.delete("/embedded/pods/default/a").status == 200
    assert wait_until(lambda: daemon.schedule("c", NODES), "c is placed") in NODES
