# SPDX-License-Identifier: Apache-2.0
"""Signals: the drain, the reload, the exit status."""
import json
import signal
import socket
import threading
import time

import pytest

from support import PATIENCE, begin_filter, gpu_node, percent, pod, read_answer, wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_clean_stop(daemon, number):
    daemon.signal(number)
    assert daemon.wait() == 0
    assert '"Stopped"' in daemon.log()


def test_idle_connections_do_not_hold_up_the_stop(start):
    daemon = start(config=f"server:\n  drainTimeout: {PATIENCE}s\n")
    sockets = [daemon.connect() for _ in range(10)]
    begin = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begin < PATIENCE / 2
    for sock in sockets:
        sock.close()


class Client(threading.Thread):
    """Sends filter calls over a kept connection until told to close it, then over new ones, until
    connections are refused. Any request that was sent and not answered is lost."""

    def __init__(self, daemon, request):
        super().__init__()
        self.daemon, self.request = daemon, request
        self.answered = 0
        self.lost = []

    def run(self):
        sock = None
        while True:
            try:
                if sock is None:
                    sock = socket.create_connection(("127.0.0.1", self.daemon.port), 60)
            except OSError:
                return # nobody listens any more: nothing was sent
            try:
                sock.sendall(self.request)
                answer, _ = read_answer(sock)
            except (OSError, AssertionError) as failure:
                self.lost.append(failure)
                return
            self.answered += answer.status == 200
            if answer.headers.get("connection", "").lower() == "close":
                sock.close()
                sock = None


def test_stop_under_load_loses_no_request(start):
    daemon = start(gpu_node("n1") + [pod("p", percent(50))])
    body = json.dumps(daemon.arguments(daemon.pod("p"), ["n1"])).encode()
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(body)
    keep = head + b"\r\n" + body
    close = head + b"Connection: close\r\n\r\n" + body
    clients = [Client(daemon, request) for request in [keep] * 8 + [close] * 8]
    for client in clients:
        client.start()
    wait_until(lambda: all(client.answered > 20 for client in clients), "all are in full swing")
    assert daemon.stop() == 0
    for client in clients:
        client.join(60)
        assert not client.lost
        assert not client.is_alive()


def test_request_that_stalls_is_cut_at_the_end_of_the_drain(start):
    daemon = start(config="server:\n  drainTimeout: 1s\n  requestTimeout: 60s\n")
    daemon.may_fail = True
    with daemon.connect() as sock:
        begin_filter(sock, 10)
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 1
    assert "requests=1" in daemon.log()


def test_second_signal_does_not_wait(start):
    daemon = start(config=f"server:\n  drainTimeout: {2 * PATIENCE}s\n  requestTimeout: 60s\n")
    daemon.may_fail = True
    with daemon.connect() as sock:
        begin_filter(sock, 10)
        daemon.signal(signal.SIGTERM)
        wait_until(lambda: '"Stopping"' in daemon.log(), "the drain begins")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 1


def test_not_ready_while_draining(start):
    daemon = start(config=f"server:\n  drainTimeout: {PATIENCE}s\n  requestTimeout: {PATIENCE}s\n")
    with daemon.connect() as busy, daemon.connect() as probe:
        begin_filter(busy, 2)
        busy.sendall(b"{")
        probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(probe)[0].status == 200
        daemon.signal(signal.SIGTERM)
        wait_until(lambda: '"Stopping"' in daemon.log(), "the drain begins")
        probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer, _ = read_answer(probe)
        assert answer.status == 503
        assert answer.body == (b"[+]ping ok\n[+]synced ok\n[-]shutdown failed: "
                               b"the process is shutting down\nreadyz check failed\n")
        assert answer.headers["connection"].lower() == "close"
        busy.sendall(b"}")
        assert read_answer(busy)[0].status == 200, "what had begun is answered"
    assert daemon.wait() == 0


def test_reload_of_a_valid_configuration(start):
    daemon = start(gpu_node("n1") + [pod("a", percent(50)), pod("b", percent(25))],
                   config="policy:\n  device: default\n")
    assert daemon.bind(daemon.pod("a"), "n1") == ""
    daemon.write_config("policy:\n  device: spread\nserver:\n  maxNodes: 7\n  idleTimeout: 100s\n")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: '"Configuration reloaded"' in daemon.log(), "the reload")
    assert daemon.bind(daemon.pod("b"), "n1") == ""
    assert daemon.used_core("n1") == [50, 25], "spread, not default"
    needing = [line for line in daemon.log().splitlines() if "needs a restart" in line]
    assert len(needing) == 2
    assert "server.maxNodes" in "".join(needing) and "server.idleTimeout" in "".join(needing)
    assert "server.port" not in "".join(needing), "flags win at a reload too"
    metrics = daemon.get("/metrics").body.decode()
    assert 'deviceshare_config_reloads_total{result="success"} 1' in metrics
    assert 'deviceshare_config_reloads_total{result="refused"} 0' in metrics


def test_reload_of_an_invalid_configuration(start):
    daemon = start(gpu_node("n1") + [pod("a", percent(50)), pod("b", percent(25))],
                   config="policy:\n  device: spread\n")
    assert daemon.bind(daemon.pod("a"), "n1") == ""
    daemon.write_config("policy:\n  device: default\n  nod: spread\nlog:\n  verbosity: 99\n")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: "verbosity" in daemon.log(), "the refusal")
    assert ":5:3: " in daemon.log() and ":7:14: " in daemon.log(), "all problems with their place"
    assert daemon.bind(daemon.pod("b"), "n1") == ""
    assert daemon.used_core("n1") == [50, 25], "still spread: nothing of it is taken over"
    assert 'deviceshare_config_reloads_total{result="refused"} 1' in daemon.get(
        "/metrics").body.decode()
