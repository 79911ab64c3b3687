# SPDX-License-Identifier: Apache-2.0
"""The machine is ill: no room for the log, no descriptors, a wall clock that jumps, names that are not
resolved. docs/behaviour.md says what the daemon does then."""
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from datetime import datetime

import pytest

from follower import TIMES, Follower, check
from support import EXTENDER, ROOT, Daemon, gpu_node, keep_port, percent, pod, wait_until


# ---- the disk ----

class Mute(Daemon):
    """A daemon whose log has nowhere to go: every write fails with "no space left on device"."""

    def start(self):
        self.port = keep_port()
        self.flags[self.flags.index("--port") + 1] = str(self.port)
        with open("/dev/full", "wb") as full:
            self.process = subprocess.Popen([EXTENDER, *self.flags], stdin=subprocess.DEVNULL,
                                            stdout=full, stderr=full)
        wait_until(lambda: self.curl("--fail", path="/readyz").returncode == 0, "it is ready")
        return self


def test_a_full_disk_under_the_log(tmp_path):
    daemon = Mute(tmp_path, gpu_node("n1")).start()
    try:
        daemon.apply(pod("half", percent(50)), pod("much", percent(900)))
        assert daemon.schedule("half", ["n1"]) == "n1"
        assert daemon.filter(daemon.pod("much"), ["n1"])["NodeNames"] == []
        assert "not valid JSON" in daemon.post("/filter", "no JSON").json["Error"]
        assert daemon.used_core("n1") == [50, 0]
    finally:
        assert daemon.stop() == 0


def test_nothing_is_written_but_the_log(daemon):
    daemon.apply(pod("half", percent(50)))
    assert daemon.schedule("half", ["n1"]) == "n1"
    files = pathlib.Path(f"/proc/{daemon.process.pid}/fd")
    written = []
    for entry in files.iterdir():
        try:
            target = pathlib.Path(os.readlink(entry))
            info = (files.parent / "fdinfo" / entry.name).read_text()
        except FileNotFoundError: # a connection that ended meanwhile
            continue
        flags = int(re.search(r"flags:\s*(\d+)", info)[1], 8)
        if target.is_file() and flags & os.O_ACCMODE != os.O_RDONLY:
            written.append(target)
    assert set(written) == {daemon.log_path}


# ---- descriptors ----

def open_descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


@contextlib.contextmanager
def without_descriptors(daemon):
    """The daemon may open a handful more, and somebody has taken them all."""
    before = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    least = open_descriptors(daemon.process) + 4
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (least, before[1]))
    crowd = []
    try:
        for number in range(24):
            one = socket.socket()
            one.bind((f"127.0.0.{2 + number % 8}", 0))
            one.connect(("127.0.0.1", daemon.port))
            crowd.append(one)
        wait_until(lambda: open_descriptors(daemon.process) == least, "no descriptor is left")
        yield
    finally:
        for one in crowd:
            one.close()
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, before)


def limited(daemon, soft, hard):
    """Start it as a shell does that has these limits."""
    limits = f"ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\""
    return subprocess.run(["sh", "-c", limits, "sh", EXTENDER, *daemon.flags], timeout=60,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_the_connections_that_are_allowed_have_descriptors(tmp_path, start):
    """The soft limit is raised; where the hard one does not allow it, the key is named."""
    refused = limited(Daemon(tmp_path, gpu_node("n1")), 64, 1000)
    assert refused.returncode == 1
    assert "server.maxConnections: 256 connections may take 1024 descriptors, and the process may " \
           "have 1000" in refused.stderr, refused.stderr
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))  # for the daemon, which inherits it
    try:
        daemon = start(gpu_node("n1"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)[0] == 1024


def ask(connection, path):
    """One request over a connection that stays open; the status."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65536)
        assert piece, "the connection was closed"
        answer += piece
    head, _, rest = answer.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(rest) < length:
        rest += connection.recv(65536)
    return int(head.split()[1])


def test_no_descriptor_is_left(daemon):
    with socket.create_connection(("127.0.0.1", daemon.port)) as kept:
        kept.settimeout(60)
        assert ask(kept, "/readyz") == 200
        with without_descriptors(daemon):
            # Who is connected, as kube-scheduler is, is served all the same.
            for _ in range(20):
                assert ask(kept, "/readyz") == 200
    wait_until(lambda: daemon.curl("--fail", path="/readyz").returncode == 0, "it answers again")
    daemon.apply(pod("half", percent(50)))
    assert daemon.schedule("half", ["n1"]) == "n1"


def test_no_descriptor_for_the_api_server(api, follow):
    """Watches end and cannot be opened again until there are descriptors; nothing is lost then."""
    api.put(*gpu_node("n1"))
    daemon = follow().wait_open()
    with without_descriptors(daemon):
        api.end_watches("close")
        time.sleep(1)
        api.put(pod("new", percent(50)))
        assert daemon.alive()
    stored = daemon.pod("new")
    daemon.knows(stored["metadata"]["uid"])
    wait_until(lambda: daemon.bind(stored, "n1") == "", "it is bound")
    check(api, daemon)


# ---- the wall clock ----

@pytest.fixture
def jump(tmp_path, monkeypatch):
    """jump(seconds): the wall clocks of the daemons started from now on are wrong by that."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    shim, offset = tmp_path / "wall_clock.so", tmp_path / "wall_clock"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim,
                    ROOT / "tests" / "integration" / "wall_clock.c", "-ldl"], check=True)
    offset.write_text("0")
    monkeypatch.setenv("WALL_CLOCK", str(offset))
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    return lambda seconds: offset.write_text(str(seconds))


@pytest.mark.skipif(bool(os.environ.get("SAN")), reason="a sanitizer must be loaded first")
@pytest.mark.parametrize("seconds", [86400, -86400])
def test_the_wall_clock_jumps(api, follow, jump, seconds):
    """It is written into the Lease, for people; what is decided is decided by another clock."""
    api.put(*gpu_node("n1"), pod("before", percent(30)), pod("after", percent(30)))
    daemon = follow().wait_open()
    assert daemon.bind(daemon.pod("before"), "n1") == ""
    jump(seconds)

    def renewed():
        written = api.get("Lease", "deviceshare-extender", None)["spec"]["renewTime"]
        moment = datetime.fromisoformat(written.replace("Z", "+00:00")).timestamp()
        return abs(moment - time.time() - seconds) < 3600
    wait_until(renewed, "the Lease is renewed by the new time")
    time.sleep(5)  # longer than a Lease lasts
    assert daemon.bind(daemon.pod("after"), "n1") == ""
    assert daemon.bindings_open() == 1, "it has led all the while"
    check(api, daemon)


# ---- names ----

def test_the_api_servers_name_is_not_resolved(api, follow, tmp_path):
    kubeconfig = json.loads(api.kubeconfig(tmp_path).read_text())
    kubeconfig["clusters"][0]["cluster"]["server"] = "http://api.nowhere.invalid:6443"
    path = tmp_path / "nowhere"
    path.write_text(json.dumps(kubeconfig))
    daemon = follow(kubeconfig=path)
    wait_until(lambda: "api.nowhere.invalid" in daemon.log(), "the log names it")
    wait_until(lambda: "resolve" in daemon.readiness()[1], "readyz says what it is")
    assert daemon.readiness()[0] == 503
    assert daemon.get("/livez").status == 200
    assert daemon.stop() == 0


# Root alone may, and not in every container or chroot.
PRIVATE_MOUNTS = ["unshare", "--mount", "--propagation", "private"]
MAY_MOUNT = os.geteuid() == 0 and subprocess.run(
    [*PRIVATE_MOUNTS, "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    check=False).returncode == 0


@pytest.mark.skipif(not MAY_MOUNT, reason="a process cannot be given names of its own here")
def test_the_name_is_resolved_later(api, tmp_path):
    """No restart is needed: each attempt asks anew."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    kubeconfig = json.loads(api.kubeconfig(tmp_path).read_text())
    server = kubeconfig["clusters"][0]["cluster"]["server"]
    kubeconfig["clusters"][0]["cluster"]["server"] = server.replace("127.0.0.1", "api.later.invalid")
    path = tmp_path / "later"
    path.write_text(json.dumps(kubeconfig))
    daemon = Follower(tmp_path, api, path, TIMES)
    # In a mount namespace of its own, /etc/hosts is our file.
    script = f'mount --bind "{hosts}" /etc/hosts && exec "$@"'
    with open(daemon.log_path, "ab") as log:
        daemon.process = subprocess.Popen(
            [*PRIVATE_MOUNTS, "sh", "-c", script, "sh", EXTENDER, *daemon.flags],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        daemon.port = int(wait_until(daemon._listening, "it listens")[1])
        wait_until(lambda: "api.later.invalid" in daemon.log(), "the log names it")
        assert daemon.readiness()[0] == 503
        with open(hosts, "a", encoding="ascii") as names:  # in place: the file is mounted
            names.write("127.0.0.1 api.later.invalid\n")
        daemon.wait_ready()
    finally:
        assert daemon.stop() == 0
