# SPDX-License-Identifier: Apache-2.0
"""Who is answered, on which port, and what is said to those who are not."""
import json
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from certificates import Authority, Mount, Pair, openssl
from support import (EXTENDER, PATIENCE, Daemon, begin_filter, gpu_node, keep_port, percent, pod, read_answer,
                     wait_until)

FILTER = json.dumps({"Pod": pod("asked", percent(10), metadata={"uid": "u0"}),
                     "NodeNames": ["n1", "n2"]})


class TlsDaemon(Daemon):
    """A daemon that is called by https, with the certificate `me` or none."""
    ca, me = None, None

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def curl(self, *arguments, **how):
        mine = self.me.curl if self.me else []
        return super().curl("--cacert", str(self.ca), *mine, *arguments, **how)

    def context(self):
        context = ssl.create_default_context(cafile=self.ca)
        if self.me:
            context.load_cert_chain(self.me.cert, self.me.key)
        return context

    def connect_tls(self):
        return self.context().wrap_socket(self.connect(), server_hostname="127.0.0.1")


class Scene:
    """A daemon with its CAs and the folder where its files are."""

    def __init__(self, directory):
        self.directory = directory
        self.server_ca = Authority(directory / "server-ca")
        self.client_ca = Authority(directory / "client-ca")
        self.mount = Mount(directory / "mount")
        self.daemon = None
        self.put(self.server_ca.server())

    def put(self, pair, client_ca=None):
        self.pair = pair
        ca = (client_ca or self.client_ca).cert
        self.mount.put(tls_crt=pair.cert, tls_key=pair.key, client_ca=ca)

    def config(self, clients=False, allowed=(), server="", more=""):
        mount = self.mount.directory
        lines = ["server:", *(f"  {line}" for line in server.splitlines()), "  tls:",
                 f"    certFile: {mount}/tls.crt", f"    keyFile: {mount}/tls.key"]
        if clients:
            lines.append(f"    clientCAFile: {mount}/client.ca")
        if allowed:
            lines.append(f"    allowedClients: {json.dumps(list(allowed))}")
        return "\n".join(lines) + "\n" + more

    def start(self, flags=(), **config):
        directory = self.directory / "daemon"
        directory.mkdir()
        self.daemon = TlsDaemon(directory, gpu_node("n1") + gpu_node("n2") +
                                [pod("waiting", percent(10), metadata={"uid": "u1"})],
                                self.config(**config), flags)
        self.daemon.ca = self.server_ca.cert
        return self.daemon.start()

    def served_serial(self):
        """Of the certificate that a new handshake shows."""
        with self.daemon.connect_tls() as sock:
            shown = sock.getpeercert(binary_form=True)
        return openssl("x509", "-inform", "DER", "-noout", "-serial", stdin=shown).decode().strip()


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    if made.daemon:
        assert made.daemon.stop() == 0, made.daemon.log()


def outside_address():
    """An address of this machine that is not a loopback one."""
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout
    addresses = [word for word in found.split() if re.fullmatch(r"[0-9.]+", word)]
    if not addresses:
        pytest.skip("this machine has no address but loopback")
    return addresses[0]


# ---- encryption ----

def test_the_server_proves_who_it_is(scene):
    daemon = scene.start()
    assert daemon.get("/readyz").status == 200
    assert daemon.post("/filter", FILTER).json["NodeNames"] == ["n1", "n2"]
    daemon.ca = scene.client_ca.cert
    assert daemon.curl(path="/readyz").returncode == 60, "not of that CA"


OLD_TOO = ["-cipher", "ALL:@SECLEVEL=0"]


def greets(port, version):
    """Does a handshake in this version come to an end?"""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", f"-{version}", *OLD_TOO],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.returncode == 0 and "Cipher is (NONE)" not in done.stdout


@pytest.mark.parametrize("version, good", [("tls1", False), ("tls1_1", False), ("tls1_2", True),
                                           ("tls1_3", True)])
def test_versions(scene, version, good):
    daemon = scene.start()
    assert greets(daemon.port, version) == good
    port = keep_port()
    with subprocess.Popen(
            ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", scene.pair.cert, "-key",
             scene.pair.key, f"-{version}", "-quiet", *OLD_TOO], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as old_server:
        def meets_its_like():
            assert old_server.poll() is None, "the other server ended"
            return greets(port, version)
        try: # this client would greet in that version
            wait_until(meets_its_like, "a server of that version")
        finally:
            old_server.kill()


def test_no_plain_http_on_a_tls_port(scene):
    daemon = scene.start()
    with daemon.connect() as sock:
        sock.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert not sock.recv(100).startswith(b"HTTP")


@pytest.mark.parametrize("headers, why", [
    ("Host: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked", "Content-Length together"),
    ("Host: x\r\nContent-Length: 3\r\nContent-Length: 3", "more than one Content-Length"),
    ("Content-Length: 3", "exactly one Host"),
])
def test_misleading_headers_are_refused(scene, headers, why):
    daemon = scene.start()
    with daemon.connect_tls() as sock:
        sock.sendall(f"POST /filter HTTP/1.1\r\n{headers}\r\n\r\n".encode())
        answer, _ = read_answer(sock)
        assert answer.status == 400 and why in answer.json["error"]
        assert answer.headers["connection"] == "close"


# ---- clients ----

def client(scene, kind):
    ca = scene.client_ca
    if kind == "none":
        return None
    if kind == "foreign CA":
        return Authority(scene.directory / "foreign").issue("kube-scheduler")
    if kind == "server's CA":
        return scene.server_ca.issue("kube-scheduler")
    if kind == "itself":
        made = Pair(scene.directory, "itself")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", made.key, "-out", made.cert, "-subj", "/CN=kube-scheduler")
        return made
    return {"expired": lambda: ca.issue("kube-scheduler", days=-1),
            "other name": lambda: ca.issue("somebody", "DNS:kube-scheduler.example"),
            "half a name": lambda: ca.issue("kube"),
            "for servers": lambda: ca.issue("kube-scheduler", usage="serverAuth"),
            "common name": lambda: ca.issue("kube-scheduler"),
            "DNS": lambda: ca.issue("somebody", "DNS:other,DNS:kube-scheduler"),
            "URI": lambda: ca.issue("", "URI:spiffe://cluster/scheduler")}[kind]()


@pytest.mark.parametrize("kind, why", [
    ("none", "is missing"), ("foreign CA", "is of an unknown CA"),
    ("server's CA", "is of an unknown CA"), ("itself", "is of an unknown CA"),
    ("expired", "has expired"), ("for servers", "is not one for clients"),
    ("other name", "has no name that is allowed here"),
    ("half a name", "has no name that is allowed here"),
    ("common name", None), ("DNS", None), ("URI", None)])
def test_who_gets_a_verb(scene, kind, why):
    daemon = scene.start(clients=True, allowed=["kube-scheduler", "spiffe://cluster/scheduler"])
    daemon.me = client(scene, kind)
    bodies = {"filter": FILTER, "prioritize": FILTER, "preempt": "{}",
              "bind": json.dumps({"PodName": "waiting", "PodNamespace": "default", "PodUID": "u1",
                                  "Node": "n1"})}
    for verb, body in bodies.items():
        answer = daemon.post(f"/{verb}", body)
        if why:
            assert answer.status == 403
            assert answer.json == {"error": f"the client certificate {why}"}
            assert answer.headers["connection"] == "close"
        else:
            assert answer.status == (400 if verb == "preempt" else 200)
    for path in ("/livez", "/readyz", "/healthz", "/metrics"):
        assert daemon.get(path).status == 200
    assert daemon.get("/embedded/manifests").status == (403 if why else 200)

    daemon.me = scene.client_ca.issue("kube-scheduler")
    assert daemon.pod("waiting")["spec"].get("nodeName") == (None if why else "n1")


def test_any_client_of_the_ca_when_no_names_are_given(scene):
    daemon = scene.start(clients=True)
    daemon.me = scene.client_ca.issue("whoever")
    assert daemon.post("/filter", FILTER).status == 200
    daemon.me = None
    assert daemon.post("/filter", FILTER).status == 403


def test_a_stranger_is_refused_before_the_body(scene):
    daemon = scene.start(clients=True)
    with daemon.connect_tls() as sock:
        sock.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert read_answer(sock)[0].status == 403


def test_a_kept_connection_is_judged_again(scene):
    """The newest CA decides, also about connections that began before it."""
    daemon = scene.start(clients=True)
    daemon.me = scene.client_ca.issue("kube-scheduler")
    request = (f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(FILTER)}\r\n\r\n"
               f"{FILTER}").encode()
    with daemon.connect_tls() as sock:
        sock.sendall(request)
        assert read_answer(sock)[0].status == 200
        fresh = Authority(scene.directory / "fresh-ca")
        scene.put(scene.pair, client_ca=fresh)
        daemon.me = fresh.issue("kube-scheduler")
        wait_until(lambda: daemon.post("/filter", FILTER).status == 200, "the new CA")
        sock.sendall(request)
        assert read_answer(sock)[0].status == 403


# ---- files that change ----

def test_rotation_loses_no_request(scene):
    daemon = scene.start(clients=True)
    daemon.me = scene.client_ca.issue("kube-scheduler")
    request = (f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(FILTER)}\r\n\r\n"
               f"{FILTER}").encode()
    over, failures, counts = threading.Event(), [], []

    def call(each):
        """Requests without a pause, `each` on one connection."""
        context, count = daemon.context(), 0
        try:
            while not over.is_set():
                with context.wrap_socket(daemon.connect(), server_hostname="127.0.0.1") as sock:
                    for _ in range(each):
                        sock.sendall(request)
                        assert read_answer(sock)[0].status == 200
                        count += 1
        except Exception as failure: # whatever it is, it must not happen
            failures.append(failure)
        counts.append(count)

    threads = [threading.Thread(target=call, args=(each,)) for each in (1, 1, 1, 20, 20, 1000)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            fresh = scene.server_ca.server()
            assert scene.served_serial() != fresh.serial
            scene.put(fresh)
            wait_until(lambda: scene.served_serial() == fresh.serial, "the new certificate")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures
    assert min(counts) > 0


def test_bad_files_change_nothing_but_readiness(scene):
    daemon = scene.start()
    before = scene.pair
    stranger = scene.server_ca.server()
    scene.mount.put(tls_crt=before.cert, tls_key=stranger.key, client_ca=scene.client_ca.cert)
    wait_until(lambda: daemon.get("/readyz").status == 503, "readyz fails")
    assert b"[-]tls failed" in daemon.get("/readyz").body
    time.sleep(2.2)
    for _ in range(3):
        assert scene.served_serial() == before.serial
        assert daemon.post("/filter", FILTER).status == 200
    assert daemon.get("/livez").status == 200
    lines = [line for line in daemon.log().splitlines() if "TLS files invalid" in line]
    assert len(lines) == 1 and "tls.key: not the key of the certificate in" in lines[0]

    scene.put(stranger)
    wait_until(lambda: daemon.get("/readyz").status == 200, "readyz passes")
    assert scene.served_serial() == stranger.serial


def test_files_that_vanish_and_return(scene):
    daemon = scene.start()
    key = scene.mount.directory / "data" / "tls.key"
    text = key.read_bytes()
    key.unlink()
    wait_until(lambda: daemon.get("/readyz").status == 503, "readyz fails")
    assert daemon.post("/filter", FILTER).status == 200
    key.write_bytes(text)
    wait_until(lambda: daemon.get("/readyz").status == 200, "readyz passes")


def bad_start(scene, config):
    path = scene.directory / "bad.yaml"
    path.write_text("apiVersion: config.deviceshare.io/v1alpha1\n"
                    "kind: DeviceShareExtenderConfiguration\n" + config)
    manifests = scene.directory / "cluster.json"
    manifests.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    return subprocess.run([EXTENDER, "--config", path, "--port", "0", "--embedded-manifests",
                           manifests], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)


@pytest.mark.parametrize("which, what", [
    ("no certificate", r"tls\.crt: No such file or directory"),
    ("text for a certificate", r"tls\.crt: no certificates in PEM: "),
    ("text for a key", r"tls\.key: no private key in PEM: "),
    ("another's key", r"tls\.key: not the key of the certificate in .*/tls\.crt"),
    ("expired", r"tls\.crt: the certificate has expired"),
    ("text for a CA", r"client\.ca: no certificates in PEM"),
])
def test_bad_files_at_the_start(scene, which, what):
    mount = scene.mount.directory / "data"
    if which == "no certificate":
        (mount / "tls.crt").unlink()
    elif which == "another's key":
        (mount / "tls.key").write_bytes(scene.server_ca.key.read_bytes())
    elif which == "expired":
        scene.put(scene.server_ca.server(days=-1))
    else:
        name = {"certificate": "tls.crt", "key": "tls.key", "CA": "client.ca"}[which.split()[-1]]
        (mount / name).write_text("nothing\n")
    done = bad_start(scene, scene.config(clients=True))
    assert done.returncode == 1
    assert re.search(r'"Cannot start" err="server\.tls: .*/' + what, done.stderr), done.stderr


# ---- ports ----

def test_plain_http_only_on_loopback(scene):
    done = bad_start(scene, "server: {address: 0.0.0.0}\n")
    assert done.returncode == 2
    assert "server.address: 0.0.0.0 can be reached from other hosts" in done.stderr
    assert "server.allowPlainHTTP" in done.stderr


def test_health_has_its_own_port(scene):
    port = keep_port("127.0.0.2")
    daemon = scene.start(clients=True, more=f"health: {{address: 127.0.0.2, port: {port}}}\n")
    assert daemon.get("/readyz").status == 404
    assert daemon.post("/filter", FILTER).status == 403

    def status(path, *arguments):
        return subprocess.run(
            ["curl", "-s", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}", *arguments,
             f"http://127.0.0.2:{port}{path}"], capture_output=True, check=False).stdout

    for path in ("/livez", "/readyz", "/healthz", "/metrics"):
        assert status(path) == b"200"
    assert status("/filter", "-d", FILTER) == b"404"
    assert status("/debug/cache") == b"404"
    assert status("/embedded/manifests") == b"404"


def test_health_port_is_answered_while_the_verbs_drain(start):
    port = keep_port()
    daemon = start(gpu_node("n1"), f"health: {{port: {port}}}\nserver: {{drainTimeout: {PATIENCE}s, "
                   f"requestTimeout: {PATIENCE}s}}\n")
    with daemon.connect() as sock:
        begin_filter(sock, len(FILTER))
        sock.sendall(FILTER[:10].encode())
        daemon.signal(signal.SIGTERM)
        verbs, daemon.port = daemon.port, port
        wait_until(lambda: daemon.get("/readyz").status == 503, "readyz fails")
        assert daemon.get("/livez").status == 200
        daemon.port = verbs
        sock.sendall(FILTER[10:].encode())
        assert read_answer(sock)[0].status == 200
    assert daemon.wait() == 0


def test_a_health_port_in_use_is_a_failed_start(scene):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = bad_start(scene, f"health: {{port: {taken.getsockname()[1]}}}\n")
    assert done.returncode == 1
    assert 'err="health: cannot listen on 127.0.0.1' in done.stderr


@pytest.mark.parametrize("remote", [False, True])
def test_debug_for_other_hosts_without_certificates(start, remote):
    address = outside_address()
    daemon = start(gpu_node("n1"), "server: {address: 0.0.0.0, allowPlainHTTP: true}\n"
                   f"debug: {{remote: {str(remote).lower()}}}\n")
    assert daemon.get("/debug/cache").status == 200
    done = daemon.curl("-o", "/dev/null", "-w", "%{http_code}", "--connect-to",
                       f"::{address}:{daemon.port}", path="/debug/cache")
    assert done.stdout == (b"200" if remote else b"403")


def test_debug_for_other_hosts_with_certificates(scene):
    address = outside_address()
    daemon = scene.start(clients=True, allowed=["kube-scheduler"], server="address: 0.0.0.0\n")

    def status(me):
        daemon.me = me
        return daemon.curl("-o", "/dev/null", "-w", "%{http_code}", "--connect-to",
                           f"::{address}:{daemon.port}", path="/debug/cache").stdout

    assert status(None) == b"403"
    assert status(scene.client_ca.issue("somebody")) == b"403"
    assert status(scene.client_ca.issue("kube-scheduler")) == b"200"
    daemon.me = None
    assert daemon.get("/debug/cache").status == 200, "from this host"


# ---- clients that hold things up ----

def test_stuck_handshakes_hold_up_nobody(scene):
    daemon = scene.start(server="requestTimeout: 2s\n")
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(60) # announced longer than it is
    stuck = []
    for i in range(32):
        sock = daemon.connect()
        if i % 3:
            sock.sendall(hello if i % 3 == 1 else hello[:3])
        stuck.append(sock)
    broken = daemon.connect()
    broken.sendall(b"\x16\x03\x01\x00\x05nonsense" * 50)
    begin = time.monotonic()
    for _ in range(20):
        assert daemon.post("/filter", FILTER).status == 200
    took = time.monotonic() - begin
    for sock in stuck: # each of them is told, by the end, that this took too long
        sock.settimeout(PATIENCE)
        try:
            while sock.recv(1000):
                pass
        except ConnectionResetError:
            pass
        sock.close()
    broken.close()
    assert time.monotonic() - begin < PATIENCE
    assert took < PATIENCE / 2
    assert daemon.post("/filter", FILTER).status == 200


def test_a_connection_may_rest_after_its_handshake(scene):
    daemon = scene.start(server="requestTimeout: 2s\n")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = daemon.context()
        context.maximum_version = context.minimum_version = version
        with context.wrap_socket(daemon.connect(), server_hostname="127.0.0.1") as sock:
            for _ in range(2):
                time.sleep(2.5)
                sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                assert read_answer(sock)[0].status == 200
            sock.sendall(b"GET /livez HTTP")
            try: # it is cut, and no plain text is mixed into what is encrypted
                assert sock.recv(100) == b""
            except (ssl.SSLEOFError, ConnectionResetError):
                pass


def test_a_stop_waits_for_no_handshake(scene):
    daemon = scene.start(server=f"drainTimeout: {PATIENCE}s\nrequestTimeout: {PATIENCE}s\n")
    hung = [daemon.connect() for _ in range(4)]
    hung[0].sendall(b"\x16\x03\x01")
    idle = [daemon.connect_tls() for _ in range(4)] # who came before is known by now
    begin = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begin < PATIENCE / 2
    for sock in hung + idle:
        sock.close()


def test_64_connections(scene):
    daemon = scene.start(clients=True)
    daemon.me = scene.client_ca.issue("kube-scheduler")
    request = (f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(FILTER)}\r\n\r\n"
               f"{FILTER}").encode()
    context = daemon.context()
    open_now = [context.wrap_socket(daemon.connect(), server_hostname="127.0.0.1")
                for _ in range(64)]
    for _ in range(5):
        for sock in open_now:
            sock.sendall(request)
        for sock in open_now:
            answer, rest = read_answer(sock)
            assert answer.status == 200 and answer.json["NodeNames"] == ["n1", "n2"] and not rest
    for sock in open_now:
        sock.close()


# ---- what is written down ----

def test_audit(scene):
    daemon = scene.start(clients=True, flags=["-v", "4"])
    daemon.me = scene.client_ca.issue("kube-scheduler")
    stored = daemon.pod("waiting")
    assert daemon.bind(stored, "n1") == ""
    assert daemon.bind(stored, "n1") == ""
    assert daemon.bind(stored, "n2") != ""
    assert daemon.bind(stored, "n1", PodUID="wrong") != ""
    lines = [line for line in daemon.log().splitlines() if '"Audit: bind"' in line]
    assert len(lines) == 4
    results = [re.search(r'result="([^"]*)" err="([^"]*)" latencyUs=\d+$', line).groups()
               for line in lines]
    assert [result for result, _ in results] == ["bound", "already bound", "refused", "refused"]
    assert [bool(problem) for _, problem in results] == [False, False, True, True]
    for line in lines:
        assert 'client="kube-scheduler" namespace="default" pod="waiting" uid=' in line
    assert 'uid="u1" node="n1" cards="gpu:0" result="bound"' in lines[0]
    numbers = [int(re.search(r"requestID=(\d+)", line)[1]) for line in lines]
    assert numbers == sorted(set(numbers)), "one for each request"
    for number in numbers:
        assert re.search(rf'"HTTP request" requestID={number} .*path="/bind"', daemon.log())


def test_audit_is_always_written(start):
    daemon = start(gpu_node("n1") + [pod("waiting", percent(10))], flags=["-v", "0"])
    assert daemon.bind(daemon.pod("waiting"), "n1") == ""
    assert daemon.log().count('"Audit: bind" requestID=') == 1
