# SPDX-License-Identifier: Apache-2.0
"""Our daemon as it runs in a cluster: one of several, each in a Pod, its way to the API server a
proxy, stopped at any step of a bind; and what stands in for kubelet and kube-proxy around it."""
import json
import re
import socket
import threading

from .api import ApiError
from .caller import Caller
from .checker import quantity
from .extender import Extender
from .objects import ALLOCATED
from .parts import BUILD
from .process import NotYet, free_port, wait_until
from .proxy import Proxy

LEADER = "deviceshare.io/leader"
COMPONENT = {"app.kubernetes.io/name": "deviceshare-extender"}

# Shorter than in a cluster, so that a story does not wait; the rules between them hold.
BIND_S, DELIVERY_S, LEASE_S, RETRY_S = 1.0, 0.5, 3.0, 0.3
TIMES = f"""bind:
  timeout: {BIND_S * 1000:.0f}ms
  delivery: {DELIVERY_S * 1000:.0f}ms
leaderElection:
  leaseDuration: {LEASE_S * 1000:.0f}ms
  renewDeadline: 2s
  retryPeriod: {RETRY_S * 1000:.0f}ms
"""
# A binding whose outcome is not known is settled after T + D, by a janitor that looks once a second
# and reads the pod, which may take T.
JANITOR_S = BIND_S + DELIVERY_S + 2 * (1 + BIND_S)
# From the loss of a leader until its successor binds: the Lease runs out, which is looked at every
# retry period (and up to 1.2 more, for jitter), and then come T + D.
FAILOVER_S = LEASE_S + 2.2 * RETRY_S + BIND_S + DELIVERY_S


class Replica(Extender):
    """One daemon behind a proxy of its own. With a Pod (its object) it is told who it is."""

    def __init__(self, plane, directory, name, namespace, pod=None):
        self.proxy = Proxy(plane, name)
        super().__init__(directory, config=TIMES, name=name,
                         flags=["--kubeconfig", self.proxy.kubeconfig(namespace)])
        self.argv[0] = str(BUILD / "tests" / "stoppable-extender")
        self.pod = pod["metadata"]["name"] if pod else None
        if pod:
            self.env |= {"POD_NAME": pod["metadata"]["name"], "POD_UID": pod["metadata"]["uid"],
                         "POD_NAMESPACE": namespace}

    def start(self, stop_at=None):
        """With stop_at, "STEP:SIGNAL" of tests/e2e/stoppable, it stops itself in a bind."""
        self.env["DEVICESHARE_STOP_AT"] = stop_at or ""
        return super().start()

    def wait_gone(self):
        """It killed itself, as it was told to."""
        self.ended = True
        wait_until(lambda: not self.alive(), f"{self.name} has killed itself")

    def wait_paused(self):
        """It stopped itself, as it was told to."""
        def paused():
            self.check_alive()
            with open(f"/proc/{self.popen.pid}/stat", encoding="ascii") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "T"
        wait_until(paused, f"{self.name} has stopped itself")

    # ---- what it answers ----

    def bind(self, pod, node):
        """As kube-scheduler would: the error, "" if the pod is bound."""
        return Caller(self.url).bind(pod, node)

    def series(self, name):
        """The value of one series, labels and all."""
        match = re.search(rf"^{re.escape(name)} ([0-9.]+)$", self.get("/metrics"), re.M)
        assert match, f"no series {name}"
        return float(match[1])

    def standing(self):
        """What it says of its leadership, in its own words."""
        return re.search(r"^\[ \]leader (.*)$", self.get("/readyz?verbose") or "", re.M)[1]

    def leads(self):
        """Whether it leads and bindings may go out."""
        return self.standing() == "leads"

    def said(self, text):
        """How often its log has this text."""
        return self.log().count(text)

    def booked(self):
        """{uid: (node, shares)} of what it believes of the cluster."""
        return believed(self.cache())

    def wait_truth(self, cluster):
        """Within the janitor's bound, its bookings are the API server's annotations."""
        def same():
            believed, true = self.booked(), allocated(cluster.pods())
            if believed != true:
                raise NotYet(f"it believes {believed.items() - true.items()}, "
                             f"true is {true.items() - believed.items()}")
            return True
        # A busy machine gets as much again.
        wait_until(same, f"{self.name} believes what the API server holds", 2 * JANITOR_S)


def _share(share):
    return share["type"], share["minor"], tuple(sorted(share["amount"].items()))


def believed(cache):
    """{uid: (node, shares)} of what a daemon says of itself in /debug/cache."""
    return {pod["uid"]: (node["name"], tuple(sorted(map(_share, pod["shares"]))))
            for node in cache["nodes"] for pod in node["pods"]}


def allocated(pods):
    """{uid: (node, shares)} of what the API server holds."""
    found = {}
    for pod in pods:
        text = pod["metadata"].get("annotations", {}).get(ALLOCATED)
        if text is None or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        shares = [_share({"type": kind, "minor": entry["minor"], "amount": {
            name: quantity(value) for name, value in entry["resources"].items()
            if quantity(value)}}) for kind, entries in json.loads(text).items() for entry in entries]
        found[pod["metadata"]["uid"]] = (pod["spec"]["nodeName"], tuple(sorted(shares)))
    return found


class Kubelet:
    """Runs one daemon for each Pod of ours that has a node, tells its readiness, and ends it with
    the Pod. It does nothing by itself: a story calls sync(), often."""

    def __init__(self, plane, namespace, directory, keep):
        self.plane, self.namespace, self.directory, self.keep = plane, namespace, directory, keep
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.replicas, self.told, self.all = {}, {}, []
        # What the next daemon that is started shall stop at.
        self.stop_at = None

    def pods(self):
        return self.plane.admin.list(self.path, labelSelector="app.kubernetes.io/name="
                                     + COMPONENT["app.kubernetes.io/name"])

    def create_pod(self, name, node="n1"):
        """A Pod of ours without a Deployment."""
        self.plane.admin("POST", self.path, {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": COMPONENT},
            "spec": {"nodeName": node, "containers": [{"name": "extender", "image": "ours"}]}})
        self.sync()
        return self.replicas[name]

    def deploy(self):
        """Our Deployment and its PodDisruptionBudget, which controllers turn into Pods."""
        selector = {"matchLabels": COMPONENT}
        self.plane.admin("POST", f"/apis/apps/v1/namespaces/{self.namespace}/deployments", {
            "metadata": {"name": "extender"}, "spec": {
                "replicas": 2, "selector": selector,
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": {"labels": COMPONENT}, "spec": {"containers": [
                    {"name": "extender", "image": "registry.example/ours"}]}}}})
        self.plane.admin("POST", f"/apis/policy/v1/namespaces/{self.namespace}/"
                         "poddisruptionbudgets", {
                             "metadata": {"name": "extender"}, "spec": {
                                 "maxUnavailable": 1, "selector": selector}})

    def restart_rollout(self):
        """As kubectl rollout restart does."""
        self.plane.admin.patch(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/extender", {
            "spec": {"template": {"metadata": {"annotations": {"again": "yes"}}}}})

    def rolled_out(self):
        """As kubectl rollout status judges."""
        self.sync()
        found = self.plane.admin.get(
            f"/apis/apps/v1/namespaces/{self.namespace}/deployments/extender")
        status = found.get("status", {})
        return (status.get("observedGeneration") == found["metadata"]["generation"]
                and all(status.get(key) == 2 for key in
                        ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")))

    def evict(self, name):
        """As kubectl drain does, which tries again while the budget is used up."""
        def evicted():
            self.sync()
            return self.plane.admin("POST", f"{self.path}/{name}/eviction", {
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
        wait_until(self.plane.admin.polling(evicted), f"{name} is evicted")

    def stop(self):
        """The end of the story: nobody makes new Pods, and the ways are closed."""
        self.plane.admin.delete(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/extender")
        self.plane.admin("DELETE", f"/apis/apps/v1/namespaces/{self.namespace}/replicasets")
        self.plane.admin("DELETE",
                         f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets")
        for replica in self.all:
            replica.end()
            replica.proxy.stop()

    def sync(self):
        pods = {pod["metadata"]["name"]: pod for pod in self.pods()}
        for name in self.replicas.keys() - pods.keys():
            self._end(name)
        for name, pod in pods.items():
            if pod["metadata"].get("deletionTimestamp"):
                self._end(name)
                self.plane.admin.delete(f"{self.path}/{name}", grace=0)
            elif pod["spec"].get("nodeName"):
                self._run(name, pod)

    def _run(self, name, pod):
        if name not in self.replicas:
            replica = Replica(self.plane, self.directory, name, self.namespace, pod)
            self.replicas[name] = self.keep(replica)
            self.all.append(replica)
            replica.start(self.stop_at)
        ready = bool(self.replicas[name].alive() and self.replicas[name].get("/readyz"))
        if self.told.get(name) != ready:
            self.told[name] = ready
            self.plane.admin.patch(f"{self.path}/{name}/status", {"status": {
                "phase": "Running", "conditions": [
                    {"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
                }}, "application/strategic-merge-patch+json")

    def _end(self, name):
        replica = self.replicas.pop(name, None)
        self.told.pop(name, None)
        if replica is not None:
            replica.end()

    # ---- the label ----

    def labelled(self):
        """Names of the Pods that say they lead."""
        return [pod["metadata"]["name"] for pod in self.pods()
                if pod["metadata"]["labels"].get(LEADER) == "true"]

    def label(self, name, value):
        """Somebody sets the leader's label of a Pod, or takes it off (None)."""
        self.plane.admin.patch(f"{self.path}/{name}", {"metadata": {"labels": {LEADER: value}}})

    def leader(self):
        """The replica whose Pod alone has the label and which binds, or None."""
        names = self.labelled()
        found = self.replicas.get(names[0]) if len(names) == 1 else None
        return found if found and found.leads() else None


class Forwarder:
    """Stands in for kube-proxy: leads each new connection to where `find()` says, (host, port); an old
    one stays where it is. While find() fails or returns None, whoever connects is turned away."""

    def __init__(self, find, address=None):
        self.find = find
        self.listener = socket.create_server(address or ("127.0.0.1", free_port()))
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.listener.close()

    def _target(self):
        try:
            return self.find()
        except (OSError, ApiError, NotYet):
            return None

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client):
        target = self._target()
        try:
            server = socket.create_connection(target, timeout=5) if target else None
        except OSError:
            server = None
        if server is None:
            client.close()
            return
        server.settimeout(None)
        back = threading.Thread(target=_pour, args=[server, client], daemon=True)
        back.start()
        _pour(client, server)
        back.join()
        client.close()
        server.close()


class Service(Forwarder):
    """Leads to the Pod with the leader's label, if it is ready."""

    def __init__(self, kubelet):
        self.kubelet = kubelet
        super().__init__(self._leader)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _leader(self):
        return next((("127.0.0.1", self.kubelet.replicas[name].port)
                     for name in self.kubelet.labelled()
                     if name in self.kubelet.replicas and self.kubelet.told.get(name)), None)


def _pour(source, target):
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
    except OSError:
        pass
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        try:
            end.shutdown(how)
        except OSError:
            pass
