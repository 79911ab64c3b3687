# SPDX-License-Identifier: Apache-2.0
"""Malformed, hostile and impossible bodies, each posted to the verb of its shape."""
import pytest

from support import DATA, gpu_node, percent, pod

VERBS = ("filter", "prioritize", "preempt", "bind")
CANDIDATES = ("filter", "prioritize")

# What Go would accept is answered as Go would; the others are refused, and the text names the field
# (or, for a body that is no JSON object of any shape, says so).
ACCEPTED = {
    "quantity-as-number": CANDIDATES,
    "containers-null": CANDIDATES,
    "nodes-items-null": CANDIDATES,
    "preempt-null-victims": ("preempt",),
}
REFUSED = {
    "bind-path-traversal": (("bind",), "PodName"),
    "bind-uid-of-other-pod": (("bind",), "PodUID"),
    "deep-nesting": (CANDIDATES, "nest"),
    "invalid-utf8": (CANDIDATES, "UTF-8"),
    "names-wrong-type": (CANDIDATES, "NodeNames"),
    "no-nodes-at-all": (CANDIDATES, "NodeNames"),
    "pod-already-assigned": (CANDIDATES, "Pod.spec.nodeName"),
    "pod-null": (CANDIDATES, "Pod"),
    "pod-without-uid": (CANDIDATES, "Pod.metadata.uid"),
    "empty": (VERBS, ""),
    "not-json": (VERBS, ""),
    "null": (VERBS, ""),
    "top-level-array": (VERBS, ""),
}


def body_of(name):
    return (DATA / "bad" / f"{name}.json").read_bytes()


@pytest.fixture
def watched(start):
    """A daemon with a cluster, that must live through the test and book nothing."""
    daemon = start(gpu_node("gpu-node-01") + gpu_node("gpu-node-02") + [pod("p", percent(50))])
    before = daemon.cache()
    yield daemon
    assert daemon.alive()
    assert daemon.cache() == before
    assert all("nodeName" not in item["spec"] for item in daemon.objects("Pod"))
    assert daemon.filter(daemon.pod("p"), ["gpu-node-01"])["NodeNames"] == ["gpu-node-01"]


def test_every_file_has_its_expectation():
    files = {path.stem for path in (DATA / "bad").glob("*.json")}
    assert files == set(ACCEPTED) | set(REFUSED)


@pytest.mark.parametrize("name,verb", [(name, verb) for name, (verbs, _) in REFUSED.items()
                                       for verb in verbs])
def test_refused(watched, name, verb):
    answer = watched.post(f"/{verb}", body_of(name))
    if verb in ("filter", "bind"):
        assert answer.status == 200
        error = answer.json["Error"]
        if verb == "filter":
            assert not answer.json["NodeNames"] and not answer.json["Nodes"]
    else:
        assert answer.status == 400
        assert set(answer.json) == {"error"}
        error = answer.json["error"]
    assert error != ""
    assert REFUSED[name][1] in error


@pytest.mark.parametrize("name,verb", [(name, verb) for name, verbs in ACCEPTED.items()
                                       for verb in verbs])
def test_accepted_as_go_does(watched, name, verb):
    answer = watched.post(f"/{verb}", body_of(name))
    assert answer.status == 200, answer
    if verb == "filter":
        assert answer.json["Error"] == ""


def test_quantity_as_number(watched):
    answer = watched.post("/filter", body_of("quantity-as-number")).json
    assert "gpu-node-01" in answer["NodeNames"], "50 is 50, quoted or not"


def test_nodes_without_items(watched):
    answer = watched.post("/filter", body_of("nodes-items-null")).json
    assert answer["NodeNames"] is None and not answer["Nodes"]["items"]
    assert answer["FailedNodes"] == {} and answer["FailedAndUnresolvableNodes"] == {}
    assert watched.post("/prioritize", body_of("nodes-items-null")).json == []


def test_null_victims_are_dropped(watched):
    answer = watched.post("/preempt", body_of("preempt-null-victims"))
    assert set(answer.json) == {"NodeNameToMetaVictims"}
    assert b"null" not in answer.body


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", [
    b"{}", b"{} x", b"{}{}", b"\x00", b"{\"Pod\":{}}", b"[" * 100000, b"{\"Pod\":" * 1000,
    b"\"text\"", b"1e400", b"{'Pod': null}", b"{\"Pod\":{},}", b"\xef\xbb\xbf{}", b"  \n "])
def test_more_of_the_kind(watched, verb, body):
    answer = watched.post(f"/{verb}", body)
    assert answer.status == (200 if verb in ("filter", "bind") else 400)
    assert answer.json.get("Error") or answer.json.get("error")
