# SPDX-License-Identifier: Apache-2.0
"""`make run`: config/demo/run.sh and deviceshare-demo."""
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from support import BUILD, PATIENCE, ROOT, gpu_node, percent, pod, wait_until

RUN = ROOT / "config" / "demo" / "run.sh"
PORT = 9876


def port_is_busy():
    with socket.socket() as sock:
        sock.settimeout(PATIENCE)
        return sock.connect_ex(("127.0.0.1", PORT)) == 0


@pytest.fixture
def free_port():
    if port_is_busy():
        pytest.skip(f"port {PORT} is busy on this machine")


def run_demo(url):
    return subprocess.run([BUILD / "deviceshare-demo", "--server", url], capture_output=True,
                          text=True, timeout=PATIENCE, check=False)


def rows(output):
    """The table as {pod: {column: text}}."""
    lines = output.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("POD "))
    starts = [match.start() for match in re.finditer(r"\S+", lines[first])]
    titles = lines[first].split()
    table = {}
    for line in lines[first + 1:]:
        if not line.strip():
            break
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None])]
        table[cells[0]] = dict(zip(titles, cells))
    return table


def test_table(start):
    daemon = start(gpu_node("n1") + gpu_node("n2") + [
        pod("half", percent(50)), pod("two", {"nvidia.com/gpu": "2"}), pod("invalid", percent(150)),
        pod("big", {"nvidia.com/gpu": "9"}), pod("next", {"nvidia.com/gpu": "2"}),
        pod("plain", namespace="web"),
        pod("old", spec={"nodeName": "n1"}, status={"phase": "Running"})])
    done = run_demo(daemon.url)
    assert done.returncode == 0, done.stderr
    table = rows(done.stdout)
    assert list(table["default/half"]) == ["POD", "REQUEST", "NODE", "CARDS", "WHY"]
    assert len(table) == 7
    assert table["default/half"]["NODE"] == "n1", "the first of equals"
    assert table["default/half"]["CARDS"] == "gpu 0"
    assert "2" in table["default/half"]["WHY"] and "10" in table["default/half"]["WHY"]
    assert (table["default/two"]["NODE"], table["default/two"]["CARDS"]) == ("n2", "gpu 0,1")
    assert table["default/two"]["REQUEST"] == "2 whole gpu"
    for name in ("invalid", "big", "next"):
        assert (table[f"default/{name}"]["NODE"], table[f"default/{name}"]["CARDS"]) == ("-", "-")
    assert table["default/invalid"]["WHY"].startswith("invalid resource device requests: ")
    assert table["default/next"]["WHY"] == "Insufficient gpu devices"
    assert table["default/big"]["WHY"] not in ("", "-", "Insufficient gpu devices")
    assert table["web/plain"]["NODE"] in ("n1", "n2")
    assert table["default/old"]["NODE"] == "n1"
    for name in ("half", "two"):
        assert daemon.pod(name)["spec"]["nodeName"] == table[f"default/{name}"]["NODE"]


def test_broken_calls_exit_1(start):
    with socket.socket() as taken: # bound, not listening: refuses
        taken.bind(("127.0.0.1", 0))
        done = run_demo(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert done.stderr.startswith("deviceshare-demo: ")
    done = subprocess.run([BUILD / "deviceshare-demo", "--nonsense"], capture_output=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 2


class Script:
    """run.sh in a process group of its own, as a terminal would start it."""

    def __init__(self, directory):
        self.output = pathlib.Path(directory) / "output"
        with open(self.output, "wb") as file:
            self.process = subprocess.Popen(
                [RUN, BUILD], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def text(self):
        return self.output.read_text(errors="replace")

    def group(self, number):
        os.killpg(self.process.pid, number)

    def end(self):
        if self.process.poll() is None:
            self.group(signal.SIGTERM)
            self.process.wait(PATIENCE)


@pytest.fixture
def script(tmp_path, free_port):
    if not list((ROOT / "config" / "demo" / "cluster").glob("*.yaml")):
        pytest.skip("config/demo/cluster is not there yet")
    started = Script(tmp_path)
    yield started
    started.end()


def started(script):
    assert script.process.poll() is None, script.text()
    return re.search(r"(?m)^Ready: .*Ctrl-C", script.text())


def test_run(script):
    wait_until(lambda: started(script), "the Ready line")
    table = rows(script.text())
    assert len(table) > 3
    for name, row in table.items():
        assert row["WHY"] not in ("", "-"), f"{name} is not explained"
        if row["NODE"] == "-":
            assert row["CARDS"] == "-"
    placed = [row for row in table.values() if row["NODE"] != "-"]
    explained = [row["WHY"] for row in table.values() if row["NODE"] == "-"]
    assert len(placed) > len(explained)
    assert any(text.startswith("invalid resource") for text in explained)
    assert any(not text.startswith("invalid resource") for text in explained), "too big"
    # Ctrl-C goes to the whole group
    script.group(signal.SIGINT)
    assert script.process.wait(PATIENCE) == 0, script.text()
    assert '"Stopped"' in script.text()
    wait_until(lambda: not port_is_busy(), "the port is free again")


def test_run_is_stopped_by_term(script):
    wait_until(lambda: started(script), "the Ready line")
    script.process.send_signal(signal.SIGTERM)
    assert script.process.wait(PATIENCE) == 0
    assert not port_is_busy()


def test_run_says_that_the_port_is_busy(tmp_path, free_port):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", PORT))
        taken.listen(0)
        script = Script(tmp_path)
        assert script.process.wait(PATIENCE) != 0
    assert "9876" in script.text() and "busy" in script.text()
