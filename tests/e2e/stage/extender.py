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
# Loopback has no proxy, whatever the environment says.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Extender(Process):
    """deviceshare-extender on a free port, with its configuration and log in a folder.

    With manifests (text) it has an embedded cluster; else `flags` or `config` say where its API
    server is."""

    def __init__(self, directory, manifests=None, config="", flags=(), name="extender"):
        directory.mkdir(parents=True, exist_ok=True)
        self.config_path = directory / f"{name}.yaml"
        self.config_path.write_text(_HEADER + config)
        if manifests is not None:
            path = directory / f"{name}-cluster.yaml"
            path.write_text(manifests)
            flags = ["--embedded-manifests", path, *flags]
        # Fixed, so that kube-scheduler finds it again after a restart.
        self.port = free_port()
        # Whether a story itself has ended it.
        self.ended = False
        super().__init__(name, [BUILD / "deviceshare-extender", "--config", self.config_path,
                                "--port", self.port, *flags], directory / f"{name}.log")

    def start(self):
        super().start()
        self.ended = False
        wait_until(self._ready, "the extender is ready")
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
        return f"http://127.0.0.1:{self.port}"

    def get(self, path):
        """The body of a 200 answer as text; None for any other status."""
        try:
            with _opener.open(self.url + path, timeout=PATIENCE) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError:
            return None

    def cache(self):
        return json.loads(self.get("/debug/cache"))

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
