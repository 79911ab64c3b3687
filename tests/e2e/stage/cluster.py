# SPDX-License-Identifier: Apache-2.0
"""What a story does to the cluster and sees of it."""
import concurrent.futures
import json
import os
import subprocess

from . import objects, parts
from .api import ApiError
from .process import PATIENCE, wait_until


class Cluster:
    """The API server as admin, with a namespace of the story's own."""

    def __init__(self, plane, namespace):
        self.plane, self.api, self.namespace = plane, plane.admin, namespace
        self.kubeconfig = plane.certificate_kubeconfig("admin", "system:masters")

    def set_up(self):
        self.api("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        return self

    def tear_down(self):
        """Leave an empty cluster; other namespaces' pods too, a story may have made them."""
        self.wait(self._emptied, "the cluster is empty")

    def _emptied(self):
        left = self.api.list("/api/v1/pods")
        for namespace in {item["metadata"]["namespace"] for item in left}:
            self.api("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
        self.api("DELETE", "/api/v1/nodes")
        if self.api.find(objects.DEVICES):
            self.api("DELETE", objects.DEVICES)
        return not left

    # ---- kubectl ----

    def kubectl(self, *arguments, stdin=None, check=True):
        """Run kubectl in the story's namespace: its output, or with check=False the finished
        process."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig),
                       "KUBECACHEDIR": str(self.plane.directory / "kubectl-cache")}
        done = subprocess.run([parts.binary("kubectl"), "--namespace", self.namespace, *arguments],
                              input=stdin, capture_output=True, text=True, timeout=PATIENCE,
                              env=environment, check=False)
        if not check:
            return done
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def export(self, *kinds):
        """Objects as kubectl prints them: manifests that can be applied elsewhere."""
        return self.kubectl("get", ",".join(kinds), "--output", "yaml")

    # ---- nodes and devices ----

    def install_device_crd(self):
        self.kubectl("apply", "--filename", str(parts.ROOT / "deploy" / "crd" / "device.yaml"))
        self.wait(lambda: self.api.find(objects.DEVICES), "the API server serves Devices")

    def create_node(self, name, labels=None, allocatable=None):
        return self.api("POST", "/api/v1/nodes", objects.node(name, labels, allocatable))

    def create_device(self, name, *cards):
        return self.api("POST", objects.DEVICES, objects.device(name, *cards))

    def create_gpu_node(self, name, cards, advertise, labels=None):
        """A node and its Device; the node advertises the cards, or says nothing of them."""
        self.create_device(name, *cards)
        self.create_node(name, labels, objects.advertised(*cards) if advertise else None)

    def update_device(self, name, *cards):
        """As the node's agent would, when a card fails, comes or goes."""
        return self.api.patch(f"{objects.DEVICES}/{name}", {"spec": {"devices": list(cards)}})

    # ---- pods ----

    def _pod_path(self, name, *subresource):
        return "/".join([f"/api/v1/namespaces/{self.namespace}/pods/{name}", *subresource])

    def create(self, manifest):
        """A pod from its manifest."""
        return self.api("POST", f"/api/v1/namespaces/{self.namespace}/pods", manifest)

    def create_pod(self, name, requests=None, **spec):
        return self.create(objects.pod(name, requests, **spec))

    def create_many(self, manifests, writers=8):
        """Create pods as fast as so many clients can."""
        with concurrent.futures.ThreadPoolExecutor(writers) as pool:
            return list(pool.map(self.create, manifests))

    def bind(self, pod, node, annotations=None):
        """What a scheduler does at last: give a created pod a node and annotations in one write."""
        metadata = pod["metadata"]
        self.api("POST", self._pod_path(metadata["name"], "binding"), {
            "apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node},
            "metadata": {"name": metadata["name"], "uid": metadata["uid"],
                         "annotations": annotations or {}}})

    def pod(self, name):
        """The pod, or None."""
        return self.api.find(self._pod_path(name))

    def pods(self):
        return self.api.list(f"/api/v1/namespaces/{self.namespace}/pods")

    def finish_pod(self, name, phase="Succeeded"):
        """The pod's containers end, and its kubelet says so."""
        return self.api.patch(self._pod_path(name, "status"), {"status": {"phase": phase}})

    def delete_pod(self, name, grace=0):
        self.api.delete(self._pod_path(name), grace)

    def mark_terminating(self, name, seconds=3600):
        """A deletion that a kubelet has yet to carry out; the pod must be bound."""
        self.api.delete(self._pod_path(name), seconds)

    # ---- waiting ----

    def wait(self, condition, what, seconds=PATIENCE):
        return wait_until(self.api.polling(condition), what, seconds)

    def wait_bound(self, name, seconds=PATIENCE):
        """The pod once it has a node. A failure tells what kube-scheduler said last."""
        try:
            return self.wait(lambda: self._bound(name), f"pod {name} is bound", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.why(name)}") from None

    def _bound(self, name):
        found = self.pod(name)
        return found if found and found["spec"].get("nodeName") else None

    def wait_all_bound(self, count, seconds=PATIENCE):
        """All pods of the namespace, once there are so many and all have a node."""
        def bound():
            found = [item for item in self.pods() if item["spec"].get("nodeName")]
            return found if len(found) == count else None
        return self.wait(bound, f"{count} pods are bound", seconds)

    def wait_unschedulable(self, name, text="", seconds=PATIENCE):
        """The message of the pod's condition, once kube-scheduler says it cannot be placed and
        the message has this text in it."""
        def refused():
            condition = self.condition(name)
            if condition.get("reason") == "Unschedulable" and text in condition["message"]:
                return condition["message"]
            return None
        try:
            return self.wait(refused, f"pod {name} is unschedulable with {text!r}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.why(name)}") from None

    def condition(self, name, kind="PodScheduled"):
        """A condition of the pod, {} if it has none."""
        found = self.pod(name) or {}
        for condition in found.get("status", {}).get("conditions", []):
            if condition["type"] == kind:
                return condition
        return {}

    def events(self, name, reason=None):
        """Messages of the events about a pod."""
        items = self.api.list(f"/api/v1/namespaces/{self.namespace}/events",
                              fieldSelector=f"involvedObject.name={name}")
        return [item["message"] for item in items if reason in (None, item["reason"])]

    def wait_event(self, name, reason, text, seconds=PATIENCE):
        """The message of the first event of this reason with the text in it."""
        return self.wait(
            lambda: next((message for message in self.events(name, reason) if text in message),
                         None),
            f"an event {reason} of pod {name} says {text!r}", seconds)

    def why(self, name):
        """For failures: condition and events of a pod."""
        try:
            return json.dumps({"condition": self.condition(name), "events": self.events(name)})
        except (OSError, ApiError) as error:
            return str(error)
