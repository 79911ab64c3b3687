# SPDX-License-Identifier: Apache-2.0
"""Manifests that are legal, or nearly, and made to keep the embedded cluster busy."""
import json
import os

from support import as_list, node, percent, pod

A_MOMENT = 10  # seconds of a processor; what is tried here took minutes when it grew with the square of the size


def worked(daemon):
    """Seconds of a processor that it has used."""
    with open(f"/proc/{daemon.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def labelled(labels):
    return pod("p", percent(50), metadata={"labels": labels})


def test_many_members_are_merged_in_a_moment(daemon):
    """All binds wait for the merge: it must not grow with the square of an object's size."""
    labels = {f"label-{i}": "old" for i in range(100000)}
    daemon.apply(labelled(labels))
    before = worked(daemon)
    daemon.apply(labelled({**labels, "label-7": "new", "one-more": "new"}))
    assert 0 < worked(daemon) - before < A_MOMENT
    assert daemon.pod("p")["metadata"]["labels"] == {**labels, "label-7": "new", "one-more": "new"}
    assert daemon.bind(daemon.pod("p"), "n1") == ""


def test_members_are_merged_by_their_names_however_written(daemon):
    odd = 'line\nquote"\\\u00e4\u0001' + "k" * 300
    daemon.apply(labelled({odd: "1", "a": "1", "ab": "1"}))
    body = json.dumps(labelled({odd: "2", "ab": "3"})).replace('"a', '"\\u0061')
    assert daemon.post("/embedded/manifests", body).status == 200
    assert daemon.pod("p")["metadata"]["labels"] == {odd: "2", "a": "1", "ab": "3"}


def test_many_tag_directives_are_refused_in_a_moment(daemon):
    text = "".join(f"%TAG !t{i}! tag:{i}\n" for i in range(500000)) + "---\nkind: Node\n"
    before = worked(daemon)
    answer = daemon.post("/embedded/manifests", text)
    assert worked(daemon) - before < A_MOMENT
    assert answer.status == 400
    assert answer.json["error"] == "body:1:1: tags are not read"


def test_a_refused_item_of_a_list_is_named(daemon):
    items = [node("fine"), {"apiVersion": "v1", "kind": "Node"}, None]
    for bad, error in ((items, "body:1: items[1]: metadata.name: must not be empty"),
                       ([items[0], None], "body:1: items[1]: object: must be an object")):
        answer = daemon.post("/embedded/manifests", as_list(bad))
        assert answer.status == 400
        assert answer.json["error"] == error


def test_no_object_is_too_deep_for_the_list_of_all(daemon):
    for depth in range(57, 63):
        body = json.dumps({**node("deep"), "x": 0}).replace(": 0", ": " + "[" * depth + "]" * depth)
        answer = daemon.post("/embedded/manifests", body)
        assert answer.status in (200, 400), answer
        listed = daemon.get("/embedded/manifests")
        assert listed.status == 200
        assert daemon.post("/embedded/manifests", listed.body).status == 200
        assert daemon.post("/embedded/manifests", daemon.get(
            "/embedded/manifests?format=json").body).status == 200
    assert answer.status == 400
    assert answer.json["error"] == "body:1: object: nesting deeper than 62"
