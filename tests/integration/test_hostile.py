# SPDX-License-Identifier: Apache-2.0
"""Clients that mean no good, while kube-scheduler goes on with its calls from an address of its own. HOSTILE=1, which
`make prove` sets, is the whole scale, and then its calls are timed too."""
import itertools
import json
import os
import socket
import threading
import time

import pytest

from support import PATIENCE, gpu_node, percent, pod, read_answer

WHOLE = bool(os.environ.get("HOSTILE"))
CALLS = 2000 if WHOLE else 60
NAMES = [f"node-{number}" for number in range(100)]


def scale(whole, short):
    return whole if WHOLE else short


class Attack(threading.Thread):
    """Runs `deed(attack)` until the test is over; what the daemon does to its connections is no failure."""

    def __init__(self, daemon, deed):
        super().__init__(daemon=True)
        self.daemon_under, self.deed, self.over = daemon, deed, threading.Event()
        self.addresses = itertools.cycle(f"127.0.1.{last}" for last in range(1, 251))
        self.begun = threading.Event()

    def connect(self):
        """From one address after the other."""
        sock = socket.create_connection(("127.0.0.1", self.daemon_under.port), PATIENCE,
                                        source_address=(next(self.addresses), 0))
        sock.settimeout(PATIENCE)
        return sock

    def run(self):
        while not self.over.is_set():
            try:
                self.deed(self)
            except OSError: # it was thrown out, and comes again
                self.over.wait(0.01)
            self.begun.set()


def post(path, body, *headers):
    lines = [f"POST {path} HTTP/1.1", "Host: x", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def drip(attack, text):
    """So many connections, each of which gets one byte now and then."""
    socks = [attack.connect() for _ in range(scale(200, 20))]
    attack.begun.set()
    for byte in text:
        for sock in socks:
            try:
                sock.send(bytes([byte]))
            except OSError:
                pass
        if attack.over.wait(0.1):
            break
    for sock in socks:
        sock.close()


def slow_headers(attack):
    drip(attack, b"POST /filter HTTP/1.1\r\nHost: x\r\n" + b"X-Y: z\r\n" * 100)


def slow_body(attack):
    drip(attack, b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + b"{" * 1000)


def idle(attack):
    """More connections than there may be, and nothing is asked."""
    socks = []
    for _ in range(scale(1000, 300)):
        try:
            socks.append(attack.connect())
        except OSError:
            pass
    attack.begun.set()
    attack.over.wait(5)
    for sock in socks:
        sock.close()


def garbage(attack):
    with attack.connect() as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 50 + os.urandom(20000))
        while sock.recv(65536):
            pass


def huge_body(attack):
    """Announced, it is refused at once; in chunks, it is read and thrown away."""
    with attack.connect() as sock:
        sock.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert read_answer(sock)[0].status == 413
    with attack.connect() as sock:
        sock.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        for _ in range(scale(954, 40)):
            sock.sendall(chunk)
            if attack.over.is_set():
                return
        sock.sendall(b"0\r\n\r\n")
        assert read_answer(sock)[0].status == 413


def many_names(attack):
    body = {"Pod": pod("p", percent(50)), "NodeNames": [f"n{i}" for i in range(scale(10**6, 10**5))]}
    text = json.dumps(body).encode()
    while not attack.over.is_set():
        with attack.connect() as sock:
            sock.sendall(post("/filter", text))
            assert b'"Error":""' not in read_answer(sock)[0].body
            attack.begun.set()


def deep(attack):
    with attack.connect() as sock:
        for opening in (b"[", b'{"a":'):
            sock.sendall(post("/filter", opening * scale(100000, 20000)))
            assert b'"Error":""' not in read_answer(sock)[0].body


def chunk_tricks(attack):
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for chunks in (b"1\r\n{\r\n" * 5000 + b"0\r\n\r\n", b"ffffffffffffffff\r\n{}", b"-1\r\n{}\r\n0\r\n\r\n",
                   b"2;" + b"x" * 5000 + b"\r\n{}\r\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n", b"\r\n\r\n\r\n",
                   b"2\r\n{}\r\n0\r\nX: y\r\n\r\n"):
        with attack.connect() as sock:
            sock.sendall(head + chunks)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass


def tls_garbage(attack):
    with attack.connect() as sock:
        sock.sendall(bytes.fromhex("16030100c8010000c40303") + os.urandom(300))
        while sock.recv(65536):
            pass


def half_close(attack):
    """Who has said all that he will say is answered; who stops in the middle is not waited for."""
    with attack.connect() as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        sock.shutdown(socket.SHUT_WR)
        assert read_answer(sock)[0].status == 200
    with attack.connect() as sock:
        sock.sendall(post("/filter", b"{" * 100)[:-1])
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass


ATTACKS = [slow_headers, slow_body, idle, garbage, huge_body, many_names, deep, chunk_tricks, tls_garbage,
           half_close]


def rss_mib(daemon):
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.__name__ for attack in ATTACKS])
def test_kube_scheduler_goes_on(start, attack):
    """It comes when the attack is under way, and opens a new connection now and then."""
    daemon = start(gpu_node("node-7") + [pod("waiting", percent(50))],
                   config="server:\n  requestTimeout: 3s\n")
    call = post("/filter", json.dumps(daemon.arguments(daemon.pod("waiting"), NAMES)).encode())
    attacker = Attack(daemon, attack)
    attacker.start()
    assert attacker.begun.wait(PATIENCE)
    took = []
    for number in range(CALLS):
        if number % 20 == 0:
            if number:
                sock.close()
            sock = daemon.connect()
        begin = time.monotonic()
        sock.sendall(call)
        answer, rest = read_answer(sock)
        took.append(time.monotonic() - begin)
        assert answer.json["NodeNames"] == ["node-7"] and rest == b""
    sock.close()
    attacker.over.set()
    attacker.join(PATIENCE)
    took.sort()
    p99 = 1000 * took[len(took) * 99 // 100]
    print(f"figures: {attack.__name__}: p99 {p99:.1f} ms of {CALLS} calls, RSS {rss_mib(daemon):.0f} MiB")
    assert daemon.get("/livez").status == 200
    if WHOLE:
        assert p99 < 50
