# SPDX-License-Identifier: Apache-2.0
"""deviceshare-sim as people call it: reports, JSON and what it says about bad input."""
import json
import subprocess

import pytest

from support import BUILD, PATIENCE

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
