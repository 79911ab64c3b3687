# SPDX-License-Identifier: Apache-2.0
"""The command line and the configuration file."""
import re
import subprocess

import pytest

from support import EXTENDER

HEAD = "apiVersion: config.deviceshare.io/v1alpha1\nkind: DeviceShareExtenderConfiguration\n"


def run(*flags):
    return subprocess.run([EXTENDER, *map(str, flags)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def config(tmp_path):
    """config(text): the path of a configuration file with these keys."""
    def write(text):
        path = tmp_path / "x.yaml"
        path.write_text(HEAD + text)
        return path
    return write


def test_help_and_version():
    done = run("--help")
    assert done.returncode == 0
    for flag in ("--config", "--bind-address", "--port", "--embedded-manifests", "--v",
                 "--print-config", "--print-config-reference", "--validate-config", "--version"):
        assert flag in done.stdout
    assert "Exit status" in done.stdout
    done = run("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"deviceshare-extender \d+\.\d+\.\d+( \([0-9a-f]+\))?\n", done.stdout)


@pytest.mark.parametrize("flags", [["--no-such-flag"], ["--config"], ["stray"], ["--port", "x"],
                                   ["--port", "65536"], ["-v", "11"], ["--bind-address", "host"],
                                   ["--bind-address="]])
def test_wrong_command_lines_exit_2(flags):
    done = run(*flags)
    assert done.returncode == 2
    assert done.stderr and not done.stdout


def test_validate_config(config):
    done = run("--validate-config", "--config", config("server:\n  port: 1234\n"))
    assert (done.returncode, done.stderr) == (0, "")
    path = config("server:\n  prot: 1234\nlog:\n  verbosity: loud\n")
    done = run("--validate-config", "--config", path)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 2, "all problems are told"
    assert lines[0].startswith(f"{path}:4:3: ") and "prot" in lines[0]
    assert lines[1].startswith(f"{path}:6:14: ") and "verbosity" in lines[1]


def test_invalid_config_does_not_start(config):
    done = run("--config", config("nonsense: 1\n"))
    assert done.returncode == 2
    assert ":3:1: " in done.stderr


def test_missing_config_file(tmp_path):
    done = run("--config", tmp_path / "absent.yaml")
    assert done.returncode == 2
    assert "absent.yaml" in done.stderr


def values(printed):
    """The set of `key: value` of a printed configuration, without quotes."""
    return {line.strip().replace('"', "") for line in printed.splitlines()}


def test_print_config_reads_back(config, tmp_path):
    text = ("server:\n  port: 1234\n  urlPrefix: /v1\n  idleTimeout: 2m\n"
            "policy:\n  device: binpack\nunknownPods: ignore\nmetrics:\n  perCard: off\n")
    printed = run("--print-config", "--config", config(text))
    assert printed.returncode == 0
    assert values(printed.stdout) >= {"port: 1234", "urlPrefix: /v1", "device: binpack",
                                      "unknownPods: ignore"}
    again = tmp_path / "again.yaml"
    again.write_text(printed.stdout)
    reprinted = run("--print-config", "--config", again)
    assert (reprinted.returncode, reprinted.stdout) == (0, printed.stdout)


def test_flags_win_over_the_file(config):
    printed = run("--print-config", "--config", config("server:\n  port: 1234\n"), "--port", "99",
                  "--v", "4", "--bind-address", "::1", "--embedded-manifests", "/some/where")
    assert values(printed.stdout) >= {"port: 99", "verbosity: 4", "manifests: /some/where",
                                      "address: ::1"}


def test_print_config_reference():
    done = run("--print-config-reference")
    assert done.returncode == 0
    assert "`server.port`" in done.stdout and "9876" in done.stdout


def test_no_cluster_is_a_clear_refusal():
    done = run("--port", "0")
    assert done.returncode == 1
    assert "embedded.manifests" in done.stderr


def test_bad_manifests_are_a_clear_refusal(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("kind: Node\nmetadata: [\n")
    done = run("--port", "0", "--embedded-manifests", path)
    assert done.returncode == 1
    assert re.search(r"bad\.yaml:\d+", done.stderr)


def test_taken_port_is_a_clear_refusal(daemon):
    done = run("--port", daemon.port, "--embedded-manifests", daemon.manifests)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {daemon.port}: Address already in use" in done.stderr


def test_settings_reach_the_daemon(start):
    daemon = start(config="server:\n  urlPrefix: /v1\n  maxBodyBytes: 65536\n")
    assert daemon.post("/filter", {}).status == 404
    assert daemon.post("/v1/filter", {}).status == 200
    assert daemon.post("/v1/filter", b"x" * 65536).status == 200
    assert daemon.post("/v1/filter", b"x" * 65537).status == 413


def test_ipv6(start):
    daemon = start(flags=["--bind-address", "::1"])
    url = f"http://[::1]:{daemon.port}/debug/cache"
    done = subprocess.run(["curl", "-gsS", "--noproxy", "*", url], capture_output=True, timeout=60,
                          check=False)
    assert done.returncode == 0
    assert b'"nodes"' in done.stdout, "the peer counts as one on this machine"
