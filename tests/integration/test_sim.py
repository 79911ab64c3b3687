# SPDX-License-Identifier: Apache-2.0
"""deviceshare-sim as people call it: reports, JSON and what it says about bad input."""
import csv
import json
import os
import pathlib
import random
import re
import subprocess

import pytest
import yaml

from support import BUILD, PATIENCE, ROOT

SIM = BUILD / "deviceshare-sim"

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,10000,1000,2,T4
n1,10000,1000,2,T4
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli
a,1000,1,1,600
b,1000,1,1,600
c,1000,1,1,400
d,1000,1,2,1000
"""


@pytest.fixture(name="files")
def fixture_files(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    (tmp_path / "order.txt").write_text("0 1\n0 1 2 3\n")
    return tmp_path


def sim(*args):
    return subprocess.run([SIM, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


def on(files, *args):
    return sim("--nodes", files / "nodes.csv", "--pods", files / "pods.csv", *args)


@pytest.mark.parametrize("policy, placed", [("bestfit", 90), ("pack", 90), ("spread", 40)])
def test_json_on_an_order(files, policy, placed):
    run = on(files, "--order", files / "order.txt", "--policy", policy, "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["policy"] == policy
    assert report["allocated_percent_at"] == {"15": 15, "30": 30, "40": 40, "90": placed}
    assert report["decisions"] == 4
    assert report["seconds"] > 0
    assert report["rejected_percent"] == pytest.approx(0 if placed == 90 else 100 * 2000 / 3600,
                                                       abs=1e-4)


@pytest.mark.parametrize("policy", ["random", "spread", "bestfit", "dotprod", "packing",
                                    "clustering", "fgd", "pack"])
def test_every_policy_repeats_itself(files, policy):
    def curve(*args):
        report = json.loads(on(files, "--policy", policy, "--json", *args).stdout)
        return report["allocated_percent_at"], report["rejected_percent"]
    assert curve("--seed", "7") == curve("--seed", "7") == curve("--seed", "7", "--no-cache")


def test_churn(files):
    run = on(files, "--policy", "fgd", "--churn", "500", "--load", "0.5", "--json")
    report = json.loads(run.stdout)
    assert report["decisions"] == 500
    assert 0 <= report["rejected_percent"] < 100
    assert 0 < report["allocated_percent_mean"] < 60


def test_tables_of_another_list(files):
    (files / "mix.csv").write_text(PODS.splitlines()[0] + "\nz,1000,1,2,1000\n")
    run = on(files, "--policy", "pack", "--seed", "3", "--mix", files / "mix.csv", "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["learned_from"] == str(files / "mix.csv")
    run = on(files, "--policy", "pack", "--mix", files / "none.csv")
    assert run.returncode == 1 and "none.csv" in run.stderr


def test_text(files):
    run = on(files, "--policy", "pack", "--seed", "3")
    assert run.returncode == 0
    assert "arrived %" in run.stdout and "decisions in" in run.stdout


def test_help():
    run = sim("--help")
    assert run.returncode == 0
    for word in ("--nodes", "--pods", "--order", "--seed", "--churn", "--policy", "--json", "pack"):
        assert word in run.stdout


@pytest.mark.parametrize("args, word", [
    ((), "--nodes"),
    (("--policy", "best"), "best"),
    (("--policy", "pack", "--seed", "x"), "--seed"),
    (("--policy", "pack", "--churn", "0"), "--churn"),
    (("--policy", "pack", "--load", "no"), "--load"),
    (("--policy", "pack", "--order", "o", "--seed", "1"), "--order"),
    (("--policy", "pack", "--mix", "m", "--learn", "seen"), "--mix"),
    (("--policy", "pack", "stray"), "stray"),
    (("--frobnicate",), "frobnicate"),
])
def test_wrong_command_line(files, args, word):
    run = on(files, *args)
    assert run.returncode == 2
    assert word in run.stderr
    assert run.stdout == ""


def test_bad_files_are_named(files):
    (files / "pods.csv").write_text(PODS + "e,1000,1,1,-5\n")
    run = on(files, "--policy", "pack")
    assert run.returncode == 1
    assert f"{files / 'pods.csv'}:6: " in run.stderr
    run = on(files, "--policy", "pack", "--nodes", files / "missing.csv")
    assert run.returncode == 1
    assert "missing.csv" in run.stderr


# ---- manifests ----

MODELS = {"T4": (2, 16), "A10": (4, 24), "A100": (8, 80)}  # cards of a node, GiB of a card


def a_node(name, model, cpu, memory, cards, gib=16):
    labels = {"node.koordinator.sh/gpu-model": model} if model else {}
    devices = [{"type": "gpu", "minor": minor, "id": f"GPU-{name}-{minor}", "health": True,
                "resources": {"koordinator.sh/gpu-core": "100",
                              "koordinator.sh/gpu-memory-ratio": "100",
                              "koordinator.sh/gpu-memory": f"{gib}Gi"}} for minor in range(cards)]
    return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
             "status": {"allocatable": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}},
            {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
             "metadata": {"name": name, "labels": labels}, "spec": {"devices": devices}}]


def an_affinity(models):
    expression = {"key": "node.koordinator.sh/gpu-model", "operator": "In", "values": models}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                             {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def gpus_in_words(draw, cards, percent, models):
    """One of the ways to ask for so much of the GPUs."""
    ways = []
    if cards > 1 or percent == 100:
        ways += [{"nvidia.com/gpu": cards}, {"koordinator.sh/gpu": 100 * cards}]
    else:
        ways += [{"koordinator.sh/gpu": percent},
                 {"koordinator.sh/gpu-core": percent, "koordinator.sh/gpu-memory-ratio": percent},
                 {"nvidia.com/gpumem-percentage": percent, "nvidia.com/gpucores": percent}]
        if len(models) == 1 and models[0] in MODELS:  # the part of one card in MiB rounds to this percent
            mib = -(-MODELS[models[0]][1] * 1024 * percent // 100)
            ways += [{"koordinator.sh/gpu-memory": f"{mib}Mi"}, {"nvidia.com/gpumem": mib}]
    return draw.choice(ways)


def a_pod(draw, name, row, models):
    cpu, memory, cards, percent = row
    limits = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    if cards > 0:
        limits |= gpus_in_words(draw, cards, percent, models)
    spec = {"containers": [{"name": "main", "image": "i",
                            "resources": {"limits": {k: str(v) for k, v in limits.items()}}}]}
    if len(models) == 1 and draw.random() < 0.5:
        spec["nodeSelector"] = {"node.koordinator.sh/gpu-model": models[0]}
    elif models:
        spec["affinity"] = an_affinity(models)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def a_list(items):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@pytest.fixture(name="twins", scope="module")
def fixture_twins(tmp_path_factory):
    """A cluster and its pods once as CSV and once as manifests: YAML documents and a JSON List."""
    folder, draw = tmp_path_factory.mktemp("twins"), random.Random(20)
    nodes_csv, pods_csv = ["sn,cpu_milli,memory_mib,gpu,model"], [
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"]
    nodes, pods = [], []
    order = list(MODELS)
    for i in range(24):
        model = order[i] if i < 3 else draw.choice([*order, ""])
        cards = MODELS.get(model, (1, 0))[0]
        cpu, memory = 9137 * cards, 61111 * cards
        nodes_csv.append(f"n{i:03},{cpu},{memory},{MODELS.get(model, (0, 0))[0]},{model}")
        nodes += a_node(f"n{i:03}", model, cpu, memory, *MODELS.get(model, (0, 0)))
    for i in range(300):
        cards = draw.choice([0, 1, 1, 1, 1, 1, 2, 4])
        percent = 100 if cards != 1 else draw.choice([5, 23, 35, 50, 69, 100])
        some = sorted(draw.sample(range(3), draw.choice([1, 1, 2])))
        models = [order[m] for m in some] if cards > 0 and draw.random() < 0.4 else []
        row = (draw.randrange(1, 5) * 1973, draw.randrange(1, 4) * 9000, cards, percent)
        pods_csv.append(f"p{i:03},{row[0]},{row[1]},{cards},{percent * 10},{'|'.join(models)}")
        pods.append(a_pod(draw, f"p{i:03}", row, models))
    draw.shuffle(pods)
    (folder / "nodes.csv").write_text("\n".join(nodes_csv) + "\n")
    (folder / "pods.csv").write_text("\n".join(pods_csv) + "\n")
    (folder / "nodes.yaml").write_text(yaml.safe_dump_all(nodes))
    (folder / "pods.json").write_text(a_list(pods))
    return folder


def decisions(twins, nodes, pods, *args):
    """What a run decided: all of its report but its input and its times."""
    run = sim("--nodes", twins / nodes, "--pods", twins / pods, "--json", *args)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    report = json.loads(run.stdout)
    for key in ("nodes", "pods", "seconds", "decisions_per_second", "decision_cpu_us"):
        del report[key]
    return report


@pytest.mark.parametrize("args", [
    ("--policy", "pack", "--seed", "1"),
    ("--policy", "pack", "--seed", "2", "--learn", "seen"),
    ("--policy", "pack", "--seed", "3", "--churn", "2000"),
    ("--policy", "fgd", "--seed", "1"),
    ("--policy", "bestfit", "--seed", "5", "--churn", "2000", "--load", "1.2"),
    ("--policy", "random", "--seed", "4"),
])
def test_manifests_decide_as_csv(twins, args):
    want = decisions(twins, "nodes.csv", "pods.csv", *args)
    assert want["rejected_percent"] > 0 and want["decisions"] > 100
    assert decisions(twins, "nodes.yaml", "pods.json", *args) == want


def test_manifests_beside_csv(twins):
    args = ("--policy", "pack", "--seed", "1")
    assert decisions(twins, "nodes.yaml", "pods.csv", *args) == decisions(
        twins, "nodes.csv", "pods.csv", *args)


@pytest.mark.skipif(not os.environ.get("DEVICESHARE_TRACES"),
                    reason="DEVICESHARE_TRACES names no folder with the openb traces")
@pytest.mark.parametrize("variant", ["default", "gpuspec33"])
def test_openb_as_manifests(tmp_path, variant):
    folder = pathlib.Path(os.environ["DEVICESHARE_TRACES"])
    nodes = folder / "openb" / "openb_node_list_gpu_node.csv"
    pods = folder / "openb" / f"openb_pod_list_{variant}.csv"
    draw, order = random.Random(1), folder / "orders" / f"order_{variant}_42.txt"
    (tmp_path / "nodes.json").write_text(a_list([
        item for row in rows(nodes) for item in
        a_node(row["sn"], row["model"], row["cpu_milli"], row["memory_mib"], int(row["gpu"]))]))
    (tmp_path / "pods.json").write_text(a_list([
        a_pod(draw, row["name"], (row["cpu_milli"], row["memory_mib"], int(row["num_gpu"]),
                                  int(row["gpu_milli"]) // 10 if row["num_gpu"] == "1" else 100),
              row["gpu_spec"].split("|") if row.get("gpu_spec") else [])
        for row in rows(pods)]))
    for policy in ("pack", "fgd"):
        args = ("--policy", policy, "--order", order)
        assert decisions(tmp_path, "nodes.json", "pods.json", *args) == decisions(
            tmp_path, nodes, pods, *args)


POD = """---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  {more}containers:
  - name: main
    resources: {{limits: {{cpu: 1, memory: 1Gi, {limit}}}}}
"""


@pytest.mark.parametrize("text, where", [
    (POD.format(name="a", more="", limit="nvidia.com/gpu: 1") +
     POD.format(name="b", more="", limit="koordinator.sh/rdma: 100"),
     "11: Pod default/b: spec.containers: koordinator.sh/rdma: "),
    (POD.format(name="a", more="", limit="koordinator.sh/gpu: 150"),
     "2: Pod default/a: spec.containers: invalid resource unit koordinator.sh/gpu: 150"),
    (POD.format(name="a", more="", limit="koordinator.sh/gpu-memory: 1Gi"),
     "2: Pod default/a: spec.containers: koordinator.sh/gpu-memory: the cards that the pod may"),
    (POD.format(name="a", more="", limit="nvidia.com/gpu: 1").replace("  name", "\tname"), "5:1: "),
    ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n", "1: apiVersion and kind: "),
])
def test_bad_manifests_are_named(twins, tmp_path, text, where):
    path = tmp_path / "pods.yaml"
    path.write_text(text)
    run = sim("--nodes", twins / "nodes.yaml", "--pods", path, "--policy", "pack")
    assert run.returncode == 1
    assert run.stdout == ""
    assert f"deviceshare-sim: {path}:{where}" in run.stderr


def test_a_bad_device_is_named(twins, tmp_path):
    text = (twins / "nodes.yaml").read_text()
    bad = text.replace("koordinator.sh/gpu-core: '100'", "koordinator.sh/gpu-core: '50'", 1)
    (tmp_path / "nodes.yaml").write_text(bad)
    run = sim("--nodes", tmp_path / "nodes.yaml", "--pods", twins / "pods.json", "--policy", "pack")
    assert run.returncode == 1
    line = re.search(r"nodes\.yaml:(\d+): Device n000: spec.devices: gpu 0 has "
                     r"koordinator.sh/gpu-core 50, want 100", run.stderr)
    assert line, run.stderr
    assert "v1alpha1" in bad.splitlines()[int(line[1]) - 1]


def test_what_is_not_played_is_said(twins, tmp_path):
    nodes = list(yaml.safe_load_all((twins / "nodes.yaml").read_text()))
    nodes[0]["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "unschedulable": True}
    nodes[0]["status"]["capacity"] = {"nvidia.com/gpu": "2"}
    nodes[1]["spec"]["devices"][0]["health"] = False
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump_all(nodes))
    more = "nodeSelector: {zone: a}\n  topologySpreadConstraints: [{maxSkew: 1}]\n  "
    pods = "".join(POD.format(name=name, more=more, limit="koordinator.sh/gpu: 50")
                   for name in "ab").replace("name: a\n", "name: a\n  annotations: "
                                             "{deviceshare.io/node-policy: spread}\n", 1)
    (tmp_path / "pods.yaml").write_text(pods)
    run = sim("--nodes", tmp_path / "nodes.yaml", "--pods", tmp_path / "pods.yaml",
              "--policy", "pack", "--json")
    assert run.returncode == 0, run.stderr
    json.loads(run.stdout)
    said = [line.replace(f"deviceshare-sim: {tmp_path}/", "") for line in run.stderr.splitlines()]
    assert said == [
        "nodes.yaml:1: Node n000: spec.unschedulable: not played (objects: 1)",
        "nodes.yaml:1: Node n000: spec.taints: not played (objects: 1)",
        "nodes.yaml:1: Node n000: status: a device plugin's cards, which devicePluginNodes may "
        "refuse: not played (objects: 1)",
        "nodes.yaml:1: Node n000: spec.devices: unhealthy GPUs: not played (objects: 1)",
        "pods.yaml:2: Pod default/a: spec.nodeSelector: not played (objects: 2)",
        "pods.yaml:2: Pod default/a: spec.topologySpreadConstraints: not played (objects: 2)",
        "pods.yaml:2: Pod default/a: metadata.annotations: placement policy: not played "
        "(objects: 1)",
    ]


def test_the_page_about_manifests(tmp_path):
    """The commands in docs/simulator.md answer what it says."""
    text = (ROOT / "docs" / "simulator.md").read_text()
    block = re.search(r"(?ms)^```console\n(.*?)^```$", text)[1]
    script, want = [], []
    for line in block.splitlines():
        if line.startswith("$ "):
            script.append(line[2:])
        elif line.startswith("> "):
            script.append(line[2:])
        else:
            want.append(line)
    run = subprocess.run(["bash", "-e", "-o", "pipefail", "-c",
                          f"PATH={BUILD}:$PATH\ncd {tmp_path}\nln -s {ROOT / 'config'} config\n" +
                          "\n".join(script)],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=PATIENCE, check=False)
    assert run.returncode == 0, run.stdout
    assert run.stdout.splitlines() == want
