# SPDX-License-Identifier: Apache-2.0
"""The fake API server behaves as a real one where tests rely on it, and misbehaves as told."""
import http.client
import json
import time

import pytest

from fake_apiserver import Fault, FakeApiServer
from support import PATIENCE, device, node, pod, wait_until

UNFINISHED = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"


@pytest.fixture
def api():
    """An empty one."""
    with FakeApiServer() as server:
        yield server


def connect(api):
    return http.client.HTTPConnection("127.0.0.1", api.port, timeout=PATIENCE)


def call(api, method, path, body=None):
    connection = connect(api)
    connection.request(method, path, json.dumps(body) if body is not None else None)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, json.loads(data)


class Stream:
    """A watch."""

    def __init__(self, api, path):
        self.connection = connect(api)
        self.connection.request("GET", path)
        self.answer = self.connection.getresponse()

    def event(self):
        line = self.answer.readline()
        return json.loads(line) if line else None

    def short(self):
        event = self.event()
        return event and (event["type"], event["object"]["metadata"].get("name"))


def test_lists_come_in_pages(api):
    api.put(*[node(f"n{number}") for number in range(5)])
    names, token = [], ""
    for _ in range(3):
        status, body = call(api, "GET", f"/api/v1/nodes?limit=2&continue={token}")
        assert status == 200 and body["kind"] == "NodeList"
        names += [item["metadata"]["name"] for item in body["items"]]
        token = body["metadata"].get("continue")
    assert token is None and names == ["n0", "n1", "n2", "n3", "n4"]


def test_a_page_expires(api):
    api.put(node("a"), node("b"))
    token = call(api, "GET", "/api/v1/nodes?limit=1")[1]["metadata"]["continue"]
    api.put(node("c"))
    api.expire()
    status, body = call(api, "GET", f"/api/v1/nodes?limit=1&continue={token}")
    assert status == 410 and body["reason"] == "Expired"


def test_a_watch_resumes(api):
    api.put(node("old"))
    version = call(api, "GET", "/api/v1/nodes")[1]["metadata"]["resourceVersion"]
    api.put(node("a"))
    stream = Stream(api, f"/api/v1/nodes?watch=1&resourceVersion={version}")
    assert stream.short() == ("ADDED", "a")
    api.put(node("a"))
    api.delete("Node", "a")
    assert [stream.short(), stream.short()] == [("MODIFIED", "a"), ("DELETED", "a")]
    api.bookmark("Node")
    assert stream.event()["type"] == "BOOKMARK"


def test_a_watch_ends_in_time(api):
    begun = time.monotonic()
    assert Stream(api, "/api/v1/nodes?watch=1&timeoutSeconds=1").event() is None
    assert time.monotonic() - begun >= 1


def test_a_pod_leaves_the_selection(api):
    api.put(pod("p"))
    stream = Stream(api, f"/api/v1/pods?watch=1&{UNFINISHED}&resourceVersion=0")
    assert stream.short() == ("ADDED", "p")
    api.change("Pod", "p", lambda obj: obj["status"].update(phase="Succeeded"))
    event = stream.event()
    assert event["type"] == "DELETED" and event["object"]["status"]["phase"] == "Pending"
    assert call(api, "GET", f"/api/v1/pods?{UNFINISHED}")[1]["items"] == []


def test_a_definition_is_installed_later(api):
    path = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
    api.install("Device", False)
    assert call(api, "GET", path)[0] == 404
    api.install("Device")
    api.put(device("n1"))
    assert len(call(api, "GET", path)[1]["items"]) == 1


def binding(uid, to="n1"):
    return {"metadata": {"name": "p", "uid": uid, "annotations": {"a": "b"}},
            "target": {"kind": "Node", "name": to}}


def test_a_binding(api):
    path = "/api/v1/namespaces/default/pods/p/binding"
    uid = api.put(pod("p"))[0]["metadata"]["uid"]
    status, body = call(api, "POST", path, binding("other"))
    assert status == 409 and body["details"]["kind"] == "pods" and "Precondition" in body["message"]
    assert call(api, "POST", path, binding(uid))[0] == 201
    stored = api.get("Pod", "p")
    assert stored["spec"]["nodeName"] == "n1" and stored["metadata"]["annotations"] == {"a": "b"}
    status, body = call(api, "POST", path, binding(uid, "n2"))
    assert status == 409 and body["details"]["kind"] == "pods/binding"
    assert 'already assigned to node "n1"' in body["message"]


def test_writes_with_an_old_version_conflict(api):
    path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    status, first = call(api, "POST", path, lease)
    assert status == 201 and call(api, "POST", path, lease)[0] == 409
    assert call(api, "PUT", f"{path}/l", {**first, "spec": {"holderIdentity": "b"}})[0] == 200
    assert call(api, "PUT", f"{path}/l", first)[0] == 409
    assert call(api, "GET", f"{path}/l")[1]["spec"]["holderIdentity"] == "b"


def test_a_patch_merges(api):
    path = "/api/v1/namespaces/default/pods/p"
    uid = api.put(pod("p", metadata={"labels": {"keep": "1", "drop": "1"}}))[0]["metadata"]["uid"]
    patch = {"metadata": {"uid": uid, "labels": {"drop": None, "new": "2"}}}
    assert call(api, "PATCH", path, patch)[1]["metadata"]["labels"] == {"keep": "1", "new": "2"}
    assert call(api, "PATCH", path, {"metadata": {"uid": "other"}})[0] == 409


def test_what_is_denied(api):
    api.denied.add(("create", "pods/binding"))
    for subresource, allowed in (("binding", False), ("status", True)):
        review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods",
                                                  "subresource": subresource}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert call(api, "POST", path, review)[1]["status"]["allowed"] == allowed


# ---- misdeeds ----

def test_an_answer_is_lost_after_the_effect(api):
    uid = api.put(pod("p"))[0]["metadata"]["uid"]
    for then in ("reset", "close"):
        api.fault("POST", "/binding", Fault(then=then, applied=then == "close"))
        with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
            call(api, "POST", "/api/v1/namespaces/default/pods/p/binding", binding(uid))
        assert ("nodeName" in api.get("Pod", "p")["spec"]) == (then == "close")
    assert len(api.seen("POST", "/binding")) == 2


def test_an_effect_that_comes_after_the_cut(api):
    uid = api.put(pod("p"))[0]["metadata"]["uid"]
    api.fault("POST", "/binding", Fault(then="reset", applied_after=0.3))
    with pytest.raises(ConnectionError):
        call(api, "POST", "/api/v1/namespaces/default/pods/p/binding", binding(uid))
    assert "nodeName" not in api.get("Pod", "p")["spec"]
    wait_until(lambda: "nodeName" in api.get("Pod", "p")["spec"], "it is bound")


def test_half_an_answer(api):
    api.put(node("n"))
    api.fault("GET", "/nodes", Fault(then="half"))
    with pytest.raises(http.client.IncompleteRead):
        call(api, "GET", "/api/v1/nodes")
    assert call(api, "GET", "/api/v1/nodes")[0] == 200


def test_a_status_as_told(api):
    api.fault("GET", "/nodes", Fault(status=429, reason="TooManyRequests",
                                     headers={"Retry-After": "1"}, stall=0.2))
    connection = connect(api)
    begun = time.monotonic()
    connection.request("GET", "/api/v1/nodes")
    answer = connection.getresponse()
    assert answer.status == 429 and answer.getheader("Retry-After") == "1"
    assert time.monotonic() - begun >= 0.2
    answer.read()
    connection.request("GET", "/api/v1/nodes")  # the connection is good for another one
    assert connection.getresponse().status == 200


def test_watches_are_ended_silenced_and_expired(api):
    streams = [Stream(api, "/api/v1/nodes?watch=1") for _ in range(2)]
    late = {"type": "ADDED", "object": node("late")}
    assert api.send("Node", late, late) == 2
    assert [streams[0].short(), streams[0].short()] == [("ADDED", "late")] * 2
    api.silence("Node")
    api.put(node("unseen"))
    time.sleep(0.1)
    assert api.expire("Node") == 2
    event = streams[0].event()
    assert event["type"] == "ERROR" and event["object"]["code"] == 410
    assert Stream(api, "/api/v1/nodes?watch=1&resourceVersion=1").event()["object"]["code"] == 410
    assert api.end_watches("reset", "Node") >= 2
    with pytest.raises(ConnectionError):
        while streams[0].event():
            pass
