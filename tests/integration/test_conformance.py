# SPDX-License-Identifier: Apache-2.0
"""The conformance runner: it fails where it ought to, and never passes what it cannot run."""
import copy
import json
import re
import subprocess

import pytest

from support import BUILD, ROOT

RUNNER = BUILD / "tests" / "conformance"
VECTORS = ROOT / "tests" / "data" / "vectors"

HAMI_PASSED = 125
HAMI_KINDS = {"request", "pod-requests", "place", "fit", "fit-node", "sort-then-fit", "filter",
              "sequence", "sequence-outcomes", "order", "select-uuid", "select-type",
              "select-mode", "accounting-effective", "accounting-after-init", "pod-annotation",
              "node-annotation-csv", "node-annotation-json", "lifecycle", "node-usage"}

# Fields of `expect` that are for people; changing them changes nothing.
INFORMATION = {"note", "error_class", "fits_secondary_well_planned", "seed", "agree"}

CARD = {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": 17179869184,
        "koordinator.sh/gpu-memory-ratio": 100}
HALF = {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory": 8589934592,
        "koordinator.sh/gpu-memory-ratio": 50}


def run(*arguments, cwd=ROOT):
    done = subprocess.run([RUNNER, *map(str, arguments)], stdin=subprocess.DEVNULL, cwd=cwd,
                          capture_output=True, text=True, timeout=120, check=False)
    last = done.stdout.strip().splitlines()[-2:]
    done.unsupported, done.undecided = map(int, re.fullmatch(
        r"(\d+) not supported, (\d+) undecided hazards", last[0]).groups())
    done.passed, done.failed = map(int, re.fullmatch(
        r"(\d+) passed, (\d+) failed", last[1]).groups())
    return done


@pytest.fixture
def run_records(tmp_path):
    """run_records(records): run them as a vector file of their own."""
    def begin(records, *flags):
        path = tmp_path / "records.json"
        path.write_text(json.dumps({"records": records}))
        return run("-v", *flags, path)
    return begin


def all_records():
    for path in sorted((VECTORS / "koordinator").glob("*.json")):
        yield from json.loads(path.read_text()).get("records", [])


def judged_records():
    """Those that are in scope and judged by their own `expect`."""
    return [r for r in all_records() if not r["needs"] and "hazard" not in r]


def spoiled(value):
    """Other values than `value`, each wrong in one place, with the path to that place."""
    if isinstance(value, dict):
        for key, member in value.items():
            for path, wrong in spoiled(member):
                yield [key, *path], {**value, key: wrong}
        if not value:
            yield ["+"], {"gpu": {"9": {"koordinator.sh/gpu-core": 1}}}
    elif isinstance(value, list):
        for i, item in enumerate(value):
            for path, wrong in spoiled(item):
                yield [str(i), *path], value[:i] + [wrong] + value[i + 1:]
        yield ["-"], value[:-1] if value else ["surplus"]
    elif isinstance(value, bool):
        yield [], not value
    elif isinstance(value, int):
        yield [], value + 1
    elif isinstance(value, str):
        yield [], "not " + value
    else:
        yield [], 7


def record(op, given, expect, **fields):
    return {"id": "own-1", "op": op, "needs": [], "given": given, "expect": expect, **fields}


# ---- what it says of the records that we have ----

def test_every_record_in_scope_passes():
    done = run(VECTORS)
    in_scope = [r for r in all_records() if not r["needs"]]
    assert (done.returncode, done.failed) == (0, 0), done.stdout
    assert done.passed == len(in_scope) + HAMI_PASSED == 169 + HAMI_PASSED
    assert done.undecided == len([r for r in all_records() if r["needs"] and "hazard" in r])


def test_runs_from_anywhere(tmp_path):
    done = run(VECTORS / "koordinator", cwd=tmp_path)
    assert (done.returncode, done.passed, done.failed) == (0, 169, 0), done.stdout


def test_single_files_add_up():
    files = sorted((VECTORS / "koordinator").glob("*.json"))
    assert sum(run(file).passed for file in files if file.name not in
               ("fixtures.json", "service.json")) == 169


def hami_vectors():
    for path in sorted((VECTORS / "hami").glob("*.json")):
        yield from json.loads(path.read_text())["vectors"]


def test_the_vectors_of_hami():
    done = run("-v", VECTORS / "hami")
    assert (done.returncode, done.passed, done.failed) == (0, HAMI_PASSED, 0), done.stdout
    assert done.passed + done.unsupported == len(list(hami_vectors()))
    # Of the kinds that are in scope nothing is left out but what needs a feature.
    kinds = {v["kind"] for v in hami_vectors() if v["kind"] in HAMI_KINDS}
    assert kinds == HAMI_KINDS
    reasons = {why for kind, why in re.findall(r"hami/(\S+): not supported \(needs (.*)\)$",
                                               done.stdout, re.M) if kind in HAMI_KINDS}
    assert reasons == {"MIG", "vgpu-mode", "numa-bind", "mutex", "topology-aware",
                       "scoring weights", "another scheduler"}


def test_each_wrong_value_of_hami_is_found(tmp_path):
    decided = {d["id"] for d in
               json.loads((VECTORS / "decisions.json").read_text())["decisions"]}
    ignored = {"score", "observed", "match_by", "order", "order_matters", "quota_used",
               # told twice, or of no meaning here
               "mode", "numa"}
    vectors = [v for v in hami_vectors() if v["id"] == "seed-2x2-B"]
    for original in hami_vectors():
        if original["kind"] not in HAMI_KINDS or original["id"] in decided:
            continue
        for path, wrong in spoiled(original["expect"]):
            # One of two devices is as good as the other there.
            either = original["id"] == "hami-filter-003" and len(path) > 1
            if not ignored & set(path) and not either:
                vectors.append({**copy.deepcopy(original), "expect": wrong,
                                "id": "/".join([original["id"], *path])})
    path = tmp_path / "vectors.json"
    path.write_text(json.dumps({"vectors": vectors}))
    done = run("-v", path)
    failing = set(re.findall(r"^\S+ (\S+) \S+ .+: expected .*, got ", done.stdout, re.M))
    failing |= set(re.findall(r"^\S+ (\S+) \S+: not supported", done.stdout, re.M))
    passed = [v["id"] for v in vectors[1:] if v["id"] not in failing]
    assert passed == []
    assert done.failed > 300


def test_a_decision_holds_a_vector_of_hami_to_our_answer(tmp_path):
    vector = next(v for v in hami_vectors() if v["id"] == "hami-type-012")
    path, decisions = tmp_path / "vectors.json", tmp_path / "decisions"
    path.write_text(json.dumps({"vectors": [vector]}))
    assert run(path).passed == 1
    decisions.write_text('{"decisions": []}')
    assert run("--decisions", decisions, path).failed == 1


# ---- it fails where it ought to ----

def test_each_wrong_value_is_found(run_records):
    records = []
    for original in judged_records():
        for path, wrong in spoiled(original["expect"]):
            if path[0] in INFORMATION:
                continue
            changed = copy.deepcopy(original)
            changed["expect"] = wrong
            changed["id"] = "/".join([original["id"], *path])
            records.append(changed)
    assert len(records) > 600
    assert {r["op"] for r in records} == {r["op"] for r in judged_records()}
    done = run_records(records)
    failing = set(re.findall(r"^\S+ (\S+) \S+ .+: expected .*, got ", done.stdout, re.M))
    assert [r["id"] for r in records if r["id"] not in failing] == []
    assert (done.returncode, done.passed, done.failed) == (1, 0, len(records))


def test_the_line_of_a_failure(run_records):
    done = run_records([record("memory_ratio_to_bytes", {"ratio": 50, "total_bytes": "1Ki"},
                               {"bytes": 511})])
    assert re.search(r"records\.json own-1 memory_ratio_to_bytes bytes: expected 511, got 512$",
                     done.stdout, re.M)


def test_a_state_that_cannot_be_set_up_fails(run_records):
    before = {"n": {"total": {"gpu": {"0": CARD}}, "free": {"gpu": {"0": CARD}},
                    "used": {"gpu": {"0": HALF}},
                    "allocations": {"gpu": {"ns/a": {"0": HALF}}}}}
    given = {"before": before, "pod": "ns/b"}
    done = run_records([record("pod_deleted", given, {"after": before})])
    assert (done.returncode, done.failed) == (1, 1)
    assert "given.before: free" in done.stdout


@pytest.mark.parametrize("text", ["{", "", '{"neither": 1}'])
def test_files_that_hold_no_vectors_fail(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    assert run(path).returncode == 1
    assert run(tmp_path / "missing.json").returncode == 1


# ---- not supported is never passed ----

@pytest.mark.parametrize("changes, reason", [
    ({"op": "levitate"}, "unknown op levitate"),
    ({"needs": ["partition"]}, r'needs \["partition"\]'),
    ({"given": {"ratio": 50, "total_bytes": 1024, "mood": 1}}, r"unknown field given\.mood"),
    ({"expect": {"bytes": 512, "mood": 1}}, r"unknown field expect\.mood"),
    ({"expect": {}}, "nothing to compare"),
    ({"expect": None}, "no expect"),
    ({"mood": 1}, r"unknown field record\.mood"),
    ({"given": {}}, "given.ratio is no number"),
])
def test_not_supported(run_records, changes, reason):
    made = record("memory_ratio_to_bytes", {"ratio": 50, "total_bytes": 1024}, {"bytes": 512})
    assert run_records([made]).passed == 1
    done = run_records([{**made, **changes}])
    assert (done.returncode, done.passed, done.failed, done.unsupported) == (0, 0, 0, 1)
    assert re.search(f"own-1 .*not supported .*{reason}", done.stdout)


@pytest.mark.parametrize("op, given, reason", [
    ("filter", {"pod": {"requests": {"nvidia.com/gpu": 1}, "mood": 1}}, "given.pod.mood"),
    ("filter", {"node": {"mood": 1}}, "given.node.mood"),
    ("filter", {"node": {"devices": [{"type": "gpu", "minor": 0, "mood": 1}]}}, "devices.mood"),
    ("filter", {"node": {"fixture": "none such"}}, "fixture none such"),
    ("filter", {"config": {"strategy": "levitate"}}, "strategy levitate"),
    ("filter", {"hints": {"gpu": {}}}, "given.hints belongs to a later feature"),
    ("filter", {"device_requests": {"gpu": {"huawei.com/npu-core": 1}}}, "huawei.com/npu-core"),
    ("allocate", {"node": {"devices": [{"type": "tpu", "minor": 0}]}}, "device type tpu"),
    ("pod_added", {"before": {"n": {"mood": {}}}, "pod": "a/b"}, "given.before.mood"),
    ("pod_added", {"before": {}, "pod": "a/b"}, "given.pod is but a name"),
    ("prebind", {"config": {"device_plugin_adaption": True}}, "device_plugin_adaption"),
])
def test_not_supported_inside(run_records, op, given, reason):
    expect = {"after": {}} if op == "pod_added" else {"ok": True}
    done = run_records([record(op, given, expect)])
    assert (done.passed, done.failed, done.unsupported) == (0, 0, 1), done.stdout
    assert reason in done.stdout


# ---- hazards ----

def hazard():
    return next(copy.deepcopy(r) for r in all_records() if r["id"] == "db2r-005")


def test_a_decided_hazard_is_held_to_our_answer(run_records, tmp_path):
    assert run_records([hazard()]).passed == 1
    path = tmp_path / "decisions"
    path.write_text(json.dumps({"decisions": [{"id": "db2r-005", "expect": {"ratio": 28}}]}))
    done = run_records([hazard()], "--decisions", path)
    assert (done.returncode, done.passed, done.failed) == (1, 0, 1)


def test_an_undecided_hazard_is_counted_apart(run_records):
    done = run_records([{**hazard(), "id": "own-2"}])
    assert (done.returncode, done.passed, done.failed) == (0, 0, 0)
    assert (done.unsupported, done.undecided) == (0, 1)


def test_a_decision_excuses_no_other_record(run_records):
    made = hazard()
    del made["hazard"]
    done = run_records([made])
    assert (done.returncode, done.passed, done.failed) == (1, 0, 1)


# ---- forms that the format allows and our files do not use ----

STATE = {"total": {"gpu": {"0": CARD}}, "free": {"gpu": {"0": HALF}}, "used": {"gpu": {"0": HALF}},
         "allocations": {"gpu": {"ns/a": {"0": HALF}}}}
EMPTY_CARD = {"total": {"gpu": {"0": CARD}}, "free": {"gpu": {"0": CARD}}}


def gpus(*used):
    return [{"type": "gpu", "minor": minor, "total": CARD, **({"used": u} if u else {})}
            for minor, u in enumerate(used)]


def share(minor, amounts):
    return {"gpu": [{"minor": minor, "resources": amounts}]}


@pytest.mark.parametrize("op, given, expect", [
    # all three dimensions at once, which no pod could request
    ("allocate", {"device_requests": {"gpu": HALF}, "node": {"devices": gpus(None)}},
     {"ok": True, "allocations": share(0, HALF)}),
    # a card with an empty total is unhealthy
    ("allocate", {"device_requests": {"gpu": HALF},
                  "node": {"devices": [{"type": "gpu", "minor": 0, "registered": True, "total": {}},
                                       {"type": "gpu", "minor": 1, "total": CARD}]}},
     {"ok": True, "allocations": share(1, HALF)}),
    # a card that is not listed is not chosen
    ("allocate", {"device_requests": {"gpu": HALF},
                  "node": {"devices": [{"type": "gpu", "minor": 0, "registered": False,
                                        "total": CARD},
                                       {"type": "gpu", "minor": 1, "total": CARD}]}},
     {"ok": True, "allocations": share(1, HALF)}),
    # used amounts without a pod: somebody is there, so it is no whole card
    ("filter", {"pod": {"requests": {"koordinator.sh/gpu-memory-ratio": "100"}},
                "node": {"devices": gpus({"koordinator.sh/gpu-core": 1})}},
     {"ok": False, "code": "unschedulable", "reason": "Insufficient gpu devices"}),
    # free without used
    ("filter", {"pod": {"requests": {"nvidia.com/gpu": 1}},
                "node": {"devices": [{"type": "gpu", "minor": 0, "total": CARD, "free": HALF}]}},
     {"ok": False, "code": "unschedulable", "reason_contains": "gpu"}),
    # pods with their allocations on a fixture, quantities as text
    ("allocate", {"pod": {"containers": [{"requests": {"nvidia.com/gpu": "1"}}]},
                  "node": {"fixture": "fx01-gpu8-rdma4-numa2-pcie4", "allocated": [
                      {"pod": "a/b", "device_allocated": share(0, {
                          "koordinator.sh/gpu-memory": "1Gi"})}]}},
     {"ok": True, "allocations": share(1, {"koordinator.sh/gpu-core": "100",
                                           "koordinator.sh/gpu-memory": "83201216Ki",
                                           "koordinator.sh/gpu-memory-ratio": "100"})}),
    # a node without Device object cannot take a device pod, and scores nothing
    ("filter", {"pod": {"requests": {"nvidia.com/gpu": "1"}},
                "node": {"name": "n", "has_device_object": False}},
     {"ok": False, "code": "unresolvable"}),
    ("score_node", {"pod": {"requests": {"nvidia.com/gpu": "1"}},
                    "node": {"name": "n", "has_device_object": False}}, {"score": 0}),
    # a node is scored whether or not the pod fits there now
    ("score_node", {"device_requests": {"gpu": {"koordinator.sh/gpu-memory-ratio": 50}},
                    "node": {"devices": gpus(CARD)}}, {"ok": True, "score": 0}),
    ("split_per_gpu", {"converted": {"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-core": 100,
                                     "koordinator.sh/gpu-memory-ratio": 100}},
     {"per_gpu": {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50},
      "count": 2, "shared": True}),
    ("parse_gpu_requirements", {"device_requests": {"gpu": {}}}, {"ok": True, "gpu": None}),
    ("parse_gpu_requirements", {"device_requests": {"gpu": HALF}, "annotations": {}},
     {"ok": True, "gpu": {"count": 1, "per_gpu": HALF, "shared": True, "honor_partition": False,
                          "required_scope": None, "required_scope_level": 0}}),
    ("convert_device_request", {"requests": {"kubernetes.io/rdma": "50"},
                                "combination": ["koordinator.sh/rdma"]},
     {"converted": {"koordinator.sh/rdma": 50}}),
    ("parse_device_allocated", {"annotation": None}, {"ok": True, "allocations": None}),
    ("format_device_allocated", {"allocations": share(1, HALF)},
     {"annotation": '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"50",'
                    '"koordinator.sh/gpu-memory":"8Gi",'
                    '"koordinator.sh/gpu-memory-ratio":"50"}}]}'}),
    ("device_deleted", {"before": {"n": EMPTY_CARD}, "device": {"name": "n", "devices": []}},
     {"after": {"n": {"total": {"gpu": {"0": {}}}}}}),
    # no Device, and one without a name
    ("device_deleted", {"before": EMPTY_CARD, "device": None, "object": 7}, {"after": EMPTY_CARD}),
    ("device_deleted", {"before": EMPTY_CARD, "device": {"name": "", "devices": []}},
     {"after": EMPTY_CARD}),
    # a second event of a pod that is known
    ("pod_added", {"before": STATE, "pod": "ns/a"}, {"after": STATE}),
    ("pod_added", {"before": EMPTY_CARD, "pod": "ns/a", "add": share(0, HALF)}, {"after": STATE}),
    ("pod_added", {"before": EMPTY_CARD, "pod": "ns/a", "add": {"gpu": {"0": HALF}}},
     {"after": STATE}),
    ("pod_deleted", {"before": STATE, "pod": {"name": "ns/a"}}, {"after": EMPTY_CARD}),
    ("pod_updated", {"before": {"n": STATE},
                     "pod": {"name": "ns/a", "node": "n", "phase": "Succeeded"}},
     {"after": {"n": EMPTY_CARD}}),
])
def test_other_forms(run_records, op, given, expect):
    done = run_records([record(op, given, expect)])
    assert (done.returncode, done.passed, done.failed) == (0, 1, 0), done.stdout
    for path, wrong in spoiled(expect):
        done = run_records([record(op, given, wrong)])
        assert (done.passed, done.failed + done.unsupported) == (0, 1), (path, done.stdout)
