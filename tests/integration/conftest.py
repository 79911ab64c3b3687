# SPDX-License-Identifier: Apache-2.0
"""Fixtures: daemons that are stopped, and must have lived, when the test is over."""
import pytest

from fake_apiserver import FakeApiServer
from follower import LEASE, TIMES, Follower
from support import Daemon, gpu_node


@pytest.fixture
def start(tmp_path):
    """start(manifests, config=..., flags=...): a running daemon of this test's own."""
    daemons = []

    def begin(manifests=(), config="", flags=()):
        directory = tmp_path / f"daemon{len(daemons)}"
        directory.mkdir()
        daemon = Daemon(directory, manifests, config, flags)
        daemons.append(daemon)
        return daemon.start()

    yield begin
    end_all(daemons)


def end_all(daemons):
    """Stop daemons. They must have lived, and end well."""
    failures = []
    for daemon in daemons:
        ended_before = not daemon.alive()
        status = daemon.stop()
        if status != 0 and not (ended_before and getattr(daemon, "may_fail", False)):
            failures.append(f"exit status {status}:\n{daemon.log()}")
    assert not failures, "\n".join(failures)


@pytest.fixture
def daemon(start):
    """A daemon with two nodes of two GPUs of 80Gi each."""
    return start(gpu_node("n1") + gpu_node("n2"))


@pytest.fixture
def api():
    """A fake API server. A process of ours has stopped in order before, so that the next one does
    not wait for what it may have left behind."""
    with FakeApiServer() as server:
        server.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": LEASE, "annotations": {
                        "deviceshare.io/clean-stop": "the one before"}},
                    "spec": {"leaseDurationSeconds": 1}})
        yield server


@pytest.fixture
def follow(api, tmp_path):
    """follow(config=TIMES, kubeconfig=None): a daemon that follows `api`; just started."""
    daemons = []

    def begin(config=TIMES, kubeconfig=None):
        directory = tmp_path / f"follower{len(daemons)}"
        directory.mkdir()
        daemon = Follower(directory, api, kubeconfig or api.kubeconfig(tmp_path), config)
        daemons.append(daemon)
        return daemon.start()

    yield begin
    end_all(daemons)
