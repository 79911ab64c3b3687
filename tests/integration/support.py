# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: a daemon of one's own, curl, and objects to feed it."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("DEVICESHARE_BUILD", "build")).resolve()
EXTENDER = BUILD / "deviceshare-extender"
DATA = ROOT / "tests" / "data" / "extender"

# Generous, because sanitizers and a busy machine are slow; nothing waits so long when all is well.
PATIENCE = 60

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
VISIBLE = "deviceshare.io/visible-devices"
GIB = 1 << 30


def wait_until(condition, what, seconds=PATIENCE):
    """Poll until `condition()` is true and return its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)


_kept_ports = []


def keep_port(address="127.0.0.1"):
    """A port on which nobody listens, and nobody else will: it stays bound until the tests end, and whoever
    sets SO_REUSEADDR, as our daemon does, can listen there all the same."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, 0))
    _kept_ports.append(sock)
    return sock.getsockname()[1]


# ---- objects ----

def node(name):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def gpu(minor, memory="80Gi", health=True):
    return {"type": "gpu", "minor": minor, "id": f"GPU-{minor:08x}", "health": health,
            "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": memory,
                          "koordinator.sh/gpu-memory-ratio": "100"}}


def device(name, gpus=2, memory="80Gi"):
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
            "metadata": {"name": name},
            "spec": {"devices": [gpu(minor, memory) for minor in range(gpus)]}}


def gpu_node(name, gpus=2, memory="80Gi"):
    return [node(name), device(name, gpus, memory)]


def pod(name, requests=None, namespace="default", **fields):
    """A pending pod; keyword arguments overwrite metadata, spec or status fields."""
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [{"name": "main", "resources": {
                "limits": dict(requests or {}), "requests": dict(requests or {})}}]}}
    for part, values in fields.items():
        made.setdefault(part, {}).update(values)
    return made


def percent(core, ratio=None):
    return {"koordinator.sh/gpu-core": str(core),
            "koordinator.sh/gpu-memory-ratio": str(core if ratio is None else ratio)}


def as_list(objects):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


# ---- the daemon ----

class Answer:
    """Status, headers (last one of a name, lower case) and body of an HTTP answer."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


def _hear_signals():
    """Who runs the tests in the background of a shell, or with nohup, has these ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Daemon:
    """deviceshare-extender on a free port with an embedded cluster of its own."""

    def __init__(self, directory, manifests=(), config="", flags=()):
        self.directory = pathlib.Path(directory)
        self.log_path = self.directory / "log"
        self.config_path = self.directory / "extender.yaml"
        if isinstance(manifests, (str, pathlib.Path)):
            self.manifests = pathlib.Path(manifests)
        else:
            self.manifests = self.directory / "cluster.json"
            self.manifests.write_text(as_list(list(manifests)))
        self.flags = ["--config", str(self.config_path), "--port", "0",
                      "--embedded-manifests", str(self.manifests), *flags]
        self.write_config(config)
        self.process = None
        self.port = None

    def write_config(self, keys):
        self.config_path.write_text("apiVersion: config.deviceshare.io/v1alpha1\n"
                                    "kind: DeviceShareExtenderConfiguration\n" + keys)

    def start(self):
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [EXTENDER, *self.flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            preexec_fn=_hear_signals)
        log.close()
        self.port = int(wait_until(self._listening, "the daemon listens")[1])
        return self

    def _listening(self):
        assert self.process.poll() is None, f"the daemon ended:\n{self.log()}"
        return re.search(r'"Listening".* port=(\d+)', self.log())

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(PATIENCE)

    def stop(self):
        """Stop it and return its exit status."""
        if self.process is None: # it could not even be started, and that has been told
            return 0
        if self.alive():
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    # -- calls --

    def curl(self, *arguments, path="", stdin=None):
        """Run curl on a path; the finished process with its output as bytes."""
        return subprocess.run(
            ["curl", "-sS", "--noproxy", "*", "--max-time", str(PATIENCE), *arguments,
             self.url + path], input=stdin, capture_output=True, timeout=2 * PATIENCE, check=False)

    def call(self, method, path, body=None, headers=()):
        """One request by curl. `body` is bytes, text, or something to send as JSON."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        arguments = ["-i", "-X", method, "-H", "Expect:"]
        if method == "HEAD":
            arguments = ["-I"]
        for header in headers:
            arguments += ["-H", header]
        if body is not None:
            arguments += ["-H", "Content-Type: application/json", "--data-binary", "@-"]
        done = self.curl(*arguments, path=path, stdin=body)
        assert done.returncode == 0, done.stderr
        return parse_answer(done.stdout)

    def get(self, path):
        return self.call("GET", path)

    def post(self, path, body):
        return self.call("POST", path, body)

    def delete(self, path):
        return self.call("DELETE", path)

    # -- the cluster --

    def apply(self, *objects):
        answer = self.post("/embedded/manifests", as_list(list(objects)))
        assert answer.status == 200, answer
        return answer.json["applied"]

    def objects(self, kind=None):
        items = self.get("/embedded/manifests?format=json").json["items"]
        return [item for item in items if kind in (None, item["kind"])]

    def pod(self, name, namespace="default"):
        """The stored pod."""
        for item in self.objects("Pod"):
            if (item["metadata"]["namespace"], item["metadata"]["name"]) == (namespace, name):
                return item
        return None

    def cache(self):
        return self.get("/debug/cache").json

    def cached_node(self, name):
        for item in self.cache()["nodes"]:
            if item["name"] == name:
                return item
        return None

    def used_core(self, name):
        """Percent of core used, card by card."""
        return [card["used"].get("koordinator.sh/gpu-core", 0)
                for card in self.cached_node(name)["cards"]]

    # -- what kube-scheduler does --

    def arguments(self, stored, nodes):
        return {"Pod": stored, "Nodes": None, "NodeNames": list(nodes)}

    def filter(self, stored, nodes):
        answer = self.post("/filter", self.arguments(stored, nodes))
        assert answer.status == 200, answer
        return answer.json

    def prioritize(self, stored, nodes):
        answer = self.post("/prioritize", self.arguments(stored, nodes))
        assert answer.status == 200, answer
        return {entry["Host"]: entry["Score"] for entry in answer.json}

    def bind(self, stored, target, **changes):
        """Bind a stored pod; the Error of the answer."""
        meta = stored["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"],
                "Node": target, **changes}
        answer = self.post("/bind", body)
        assert answer.status == 200, answer
        return answer.json["Error"]

    def schedule(self, name, nodes, namespace="default"):
        """Filter, prioritize and bind a stored pod; its node, or None when nothing fits."""
        stored = self.pod(name, namespace)
        fitting = self.filter(stored, nodes)["NodeNames"]
        if not fitting:
            return None
        scores = self.prioritize(stored, fitting)
        best = max(fitting, key=lambda fit: scores[fit])
        assert self.bind(stored, best) == ""
        return best

    # -- raw sockets, for what curl cannot do --

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)


def begin_filter(sock, length):
    """Send the header of a filter call with a body of this length; when it returns, the daemon waits for the
    body."""
    sock.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" %
                 length)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        piece = sock.recv(1) # no more than this answer
        assert piece, f"the connection ended: {answer!r}"
        answer += piece
    assert answer.startswith(b"HTTP/1.1 100 "), answer


def parse_answer(raw):
    """An answer as `curl -i` prints it."""
    while True:
        head, _, rest = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        if status != 100:
            break
        raw = rest
    headers = {}
    for line in lines[1:]:
        key, _, value = line.partition(":")
        headers[key.strip().lower()] = value.strip()
    return Answer(status, headers, rest)


def read_answer(sock, buffer=b""):
    """Read one answer with a Content-Length from a socket: the answer, and what came after it."""
    while b"\r\n\r\n" not in buffer:
        piece = sock.recv(65536)
        assert piece, f"the connection ended: {buffer!r}"
        buffer += piece
    head, _, rest = buffer.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)[1])
    while len(rest) < length:
        piece = sock.recv(65536)
        assert piece, f"the connection ended: {buffer!r}"
        rest += piece
    return parse_answer(head + b"\r\n\r\n" + rest[:length]), rest[length:]
