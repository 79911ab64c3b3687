# SPDX-License-Identifier: Apache-2.0
"""Our daemon on this stage."""
import json
import urllib.error
import urllib.request

from .parts import BUILD
from .process import PATIENCE, Process, free_port, wait_until

_HEADER = """apiVersion: config.deviceshare.io/v1alpha1
kind: DeviceShareExtenderConfiguration
"""
# Shorter than in a cluster, so that a story does not wait; the rules between them hold.
SHORT_TIMES = """bind:
  timeout: 1s
  delivery: 500ms
leaderElection:
  leaseDuration: 4s
  renewDeadline: 3s
  retryPeriod: 500ms
"""
# Loopback has no proxy, whatever the environment says.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


_HTTPS = """server:
  tls:
    certFile: {certs}/server.crt
    keyFile: {certs}/server.key
    clientCAFile: {certs}/ca.crt
    allowedClients: [deviceshare-scheduler]
health:
  port: {health}
"""


class Extender(Process):
    """deviceshare-extender on a free port, with its configuration and log in a folder.

    With manifests (text) it has an embedded cluster; else `flags` or `config` say where its API
    server is. With `certs`, a folder that make-certs.sh made, the verbs are served over HTTPS to the
    client that it names, and probes on a port of their own."""

    def __init__(self, directory, manifests=None, config="", flags=(), name="extender", certs=None):
        directory.mkdir(parents=True, exist_ok=True)
        # Fixed, so that kube-scheduler finds it again after a restart.
        self.port = self.health_port = free_port()
        self.scheme = "https" if certs else "http"
        if certs:
            self.health_port = free_port()
            config += _HTTPS.format(certs=certs, health=self.health_port)
        self.config_path = directory / f"{name}.yaml"
        self.config_path.write_text(_HEADER + config)
        if manifests is not None:
            path = directory / f"{name}-cluster.yaml"
            path.write_text(manifests)
            flags = ["--embedded-manifests", path, *flags]
        # Whether a story itself has ended it.
        self.ended = False
        super().__init__(name, [BUILD / "deviceshare-extender", "--config", self.config_path,
                                "--port", self.port, *flags], directory / f"{name}.log")

    def start(self, ready=True):
        """Wait until it is ready, or else only until it answers."""
        super().start()
        self.ended = False
        if ready:
            wait_until(self._ready, "the extender is ready")
        else:
            wait_until(self.readyz, "the extender answers")
        return self

    def openings(self):
        """How often bindings began to be let out, in all its lives."""
        return self.log().count('"Bindings may go out"')

    def wait_open(self, seen=0):
        """Until they did more often than `seen`: a new process does not bind at once."""
        def opened():
            self.check_alive()
            return self.openings() > seen
        wait_until(opened, "bindings may go out", 120)
        return self

    def end(self):
        """A part of the story: a clean stop. start() begins again."""
        self.ended = True
        return self.stop()

    def crash(self):
        """A part of the story: kill -9."""
        self.ended = True
        self.kill()

    def _ready(self):
        self.check_alive()
        return self.get("/readyz")

    @property
    def url(self):
        """For kube-scheduler."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def plain_url(self):
        """For probes and metrics; without HTTPS the same."""
        return f"http://127.0.0.1:{self.health_port}"

    def get(self, path):
        """The body of a 200 answer as text; None for any other status."""
        try:
            with _opener.open(self.plain_url + path, timeout=PATIENCE) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError:
            return None

    def readyz(self):
        """What a probe is told, whatever the status."""
        try:
            with _opener.open(self.plain_url + "/readyz", timeout=PATIENCE) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.read().decode()

    def metric(self, name):
        """The sum of all series of this name."""
        lines = [line.rsplit(" ", 1) for line in self.get("/metrics").splitlines()]
        return sum(float(value) for series, value in lines if series.split("{")[0] == name)

    def sample(self, name, **labels):
        """One sample by its labels, in the order in which they are shown; 0 when it is not shown."""
        inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
        series = f"{name}{{{inside}}}" if labels else name
        values = [line.rsplit(" ", 1)[1] for line in self.get("/metrics").splitlines()
                  if line.rsplit(" ", 1)[0] == series]
        return float(values[0]) if values else 0

    def cache(self):
        return json.loads(self.get("/debug/cache"))

    def node(self, name):
        """What it knows of a node; None if nothing."""
        return next((node for node in self.cache()["nodes"] if node["name"] == name), None)

    def card(self, name, minor, kind="gpu"):
        """What it knows of a card; None if nothing."""
        cards = (self.node(name) or {"cards": []})["cards"]
        return next((card for card in cards if (card["type"], card["minor"]) == (kind, minor)), None)

    def _change(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, body, method=method)
        with _opener.open(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def apply(self, manifests):
        """Create or replace objects of the embedded cluster."""
        return self._change("POST", "/embedded/manifests", manifests.encode())["applied"]

    def forget_pod(self, namespace, name):
        """Delete a pod of the embedded cluster."""
        self._change("DELETE", f"/embedded/pods/{namespace}/{name}")
