# SPDX-License-Identifier: Apache-2.0
"""Well-formed bodies as kube-scheduler sends them, every one of tests/data/extender/requests."""
import json

import pytest

from support import DATA, as_list, device, gpu_node, node

# This pod asks for nvidia.com/gpu beside koordinator.sh/gpu-core, which is no valid combination.
# The text about it shows the effective request: containers 100 + 30 + 0 and a sidecar's 5; the peak
# of the init containers is less.
ODD = "odd-legal-0"
REQUESTS = sorted((DATA / "requests").glob("*.json"))


def fields(body):
    """The body's top-level fields by their exact names."""
    names = {name.lower(): name for name in ("Pod", "Nodes", "NodeNames", "NodeNameToVictims",
                                             "NodeNameToMetaVictims", "PodName", "PodNamespace",
                                             "PodUID", "Node")}
    return {names[key.lower()]: value for key, value in json.loads(body).items()}


def node_names(asked):
    if asked.get("NodeNames") is not None:
        return asked["NodeNames"]
    if asked.get("Nodes") is not None:
        return [item["metadata"]["name"] for item in asked["Nodes"]["items"]]
    victims = asked.get("NodeNameToMetaVictims") or asked.get("NodeNameToVictims") or {}
    return list(victims) or [asked["Node"]]


def test_there_are_requests():
    verbs = {path.stem.split("-")[0] for path in REQUESTS}
    assert verbs == {"filter", "prioritize", "preempt", "bind"}


def check_filter(answer, asked, names, known):
    assert answer["Error"] == ""
    failed, never = answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]
    if asked.get("NodeNames") is not None:
        assert answer["Nodes"] is None
        fits = answer["NodeNames"]
    else:
        assert answer["NodeNames"] is None
        fits = [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
        by_name = {item["metadata"]["name"]: item for item in asked["Nodes"]["items"]}
        assert all(by_name[item["metadata"]["name"]] == item for item in answer["Nodes"]["items"])
    assert len(set(fits)) == len(fits) and set(fits) <= set(names)
    if not fits:
        assert sorted([*failed, *never]) == sorted(names), "each exactly once"
        assert len(set(never.values())) == 1
    if not known:
        assert fits == [] and failed == {}
    return fits


def check(daemon, path, known):
    verb = path.stem.split("-")[0]
    body = path.read_bytes()
    asked = fields(body)
    names = node_names(asked)
    answer = daemon.post(f"/{verb}", body)
    assert answer.status == 200
    if verb == "filter":
        fits = check_filter(answer.json, asked, names, known)
        # All but the odd pod ask for what an empty node has.
        odd = fields(body)["Pod"]["metadata"]["name"] == ODD
        assert bool(fits) == (known and not odd)
        if odd:
            texts = set(answer.json["FailedAndUnresolvableNodes"].values())
            assert len(texts) == 1 and "koordinator.sh/gpu-core 135 " in texts.pop()
    elif verb == "prioritize":
        assert sorted(entry["Host"] for entry in answer.json) == sorted(names)
        for entry in answer.json:
            assert set(entry) == {"Host", "Score"}
            assert isinstance(entry["Score"], int) and 0 <= entry["Score"] <= 10
    elif verb == "preempt":
        assert set(answer.json) == {"NodeNameToMetaVictims"}
        for name, victims in answer.json["NodeNameToMetaVictims"].items():
            assert name in names
            assert victims["Pods"], "a node without victims is an error for kube-scheduler"
            assert all(set(victim) == {"UID"} for victim in victims["Pods"])
    else:
        assert set(answer.json) == {"Error"}
        assert answer.json["Error"] != "", "there is no such pod"


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_unknown_nodes(start, path):
    check(start(gpu_node("n1")), path, known=False)


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_known_nodes(start, tmp_path, path):
    names = node_names(fields(path.read_bytes()))
    manifests = tmp_path / "nodes.json"
    gpus = 8 if len(names) < 100 else 1
    manifests.write_text(as_list([node(name) for name in names] +
                                 [device(name, gpus) for name in names]))
    check(start(manifests), path, known=True)


def test_meta_and_full_victims_are_answered_alike(daemon):
    answers = [daemon.post("/preempt", (DATA / "requests" / f"preempt-{form}.json").read_bytes())
               for form in ("meta", "full")]
    assert answers[0].json == answers[1].json


def test_lower_case_keys_mean_the_same(start):
    body = (DATA / "requests" / "filter-lowercase-keys.json").read_bytes()
    asked = fields(body)
    daemon = start(sum((gpu_node(name) for name in node_names(asked)), []))
    assert daemon.post("/filter", body).json == daemon.post("/filter", asked).json
