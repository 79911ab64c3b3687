# SPDX-License-Identifier: Apache-2.0
"""Fixtures: daemons that are stopped, and must have lived, when the test is over."""
import pytest

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
