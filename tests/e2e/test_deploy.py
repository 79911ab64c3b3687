# SPDX-License-Identifier: Apache-2.0
"""What deploy/ ships is taken by a real API server and a real kube-scheduler, and allows what it says."""
import os
import re
import subprocess

import pytest

from stage import objects, parts, scheduler
from stage.api import ApiError
from stage.objects import ALLOCATED, GPU, VISIBLE
from stage.process import free_port

DEPLOY = parts.ROOT / "deploy"
OVERLAYS = ("second-scheduler", "default-scheduler")
NAMESPACE = "deviceshare-system"
ACCOUNT = "deviceshare-extender"
WOKEN_AT = "deviceshare.io/woken-at"
# In the range of this stage, as a user would choose one in his.
ADDRESS = "10.0.0.14"


def kubectl(cluster, *arguments, **more):
    """kubectl outside of the story's namespace: objects name their own."""
    return cluster.kubectl(*arguments, "--namespace=", **more)


def annotated(name, annotations):
    pod = objects.pod(name)
    pod["metadata"]["annotations"] = annotations
    return pod


@pytest.fixture
def install(cluster, tmp_path):
    """install(overlay, *components): apply them, and take back what other stories would feel."""
    applied = []

    def apply(overlay, *components):
        folder = tmp_path / overlay
        folder.mkdir()
        relative = {name: os.path.relpath(DEPLOY / name, folder) for name in
                    (f"overlays/{overlay}", *(f"components/{name}" for name in components))}
        (folder / "kustomization.yaml").write_text(f"""
            resources: [{relative.pop(f"overlays/{overlay}")}]
            components: [{", ".join(relative.values())}]
            patches:
            - target: {{kind: Service, name: deviceshare-extender}}
              patch: '[{{"op": "replace", "path": "/spec/clusterIP", "value": "{ADDRESS}"}}]'
            """)
        applied.append(folder)
        kubectl(cluster, "apply", "--kustomize", str(folder), "--validate=strict",
                "--warnings-as-errors")
        return folder

    yield apply
    for folder in applied:
        # The Namespace would stay in deletion for ever: nobody empties it here.
        built = kubectl(cluster, "kustomize", str(folder))
        rest = [text for text in built.split("\n---\n") if "\nkind: Namespace\n" not in "\n" + text]
        kubectl(cluster, "delete", "--filename", "-", "--ignore-not-found", "--grace-period", "0",
                stdin="\n---\n".join(rest))
        # Nobody collects here what a Deployment leaves.
        cluster.kubectl("--namespace", NAMESPACE, "delete", "replicasets", "--all")


def certificates(folder, *flags):
    subprocess.run([DEPLOY / "certs" / "make-certs.sh", *flags, folder], check=True,
                   capture_output=True, text=True)
    return folder


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_deployment_becomes_pods(plane, cluster, install, start_scheduler, start_controllers,
                                     tmp_path, overlay):
    start_scheduler(scheduler.plain(plane.scheduler_kubeconfig()))
    start_controllers("deployment-controller", "replicaset-controller", "disruption-controller",
                      "endpointslice-controller")
    for name in ("n1", "n2", "n3"):
        cluster.create_node(name, {"kubernetes.io/os": "linux"})
    install(overlay, "admission-policy", "network-policy", "priority-classes")
    kubectl(cluster, "apply", "--filename", str(certificates(tmp_path / "certs") / "secrets.yaml"))

    names = ["deviceshare-extender"] + ["deviceshare-scheduler"] * (overlay == "second-scheduler")
    for name in names:
        # The namespace takes Pods only if they meet Kubernetes' "restricted" standard.
        def spread(name=name):
            pods = plane.admin.list(f"/api/v1/namespaces/{NAMESPACE}/pods",
                                    labelSelector=f"app.kubernetes.io/name={name}")
            nodes = {pod["spec"].get("nodeName") for pod in pods}
            return len(pods) == 2 and len(nodes - {None}) == 2
        cluster.wait(spread, f"two Pods of {name} are on two nodes")

    # Nobody leads, so nobody is called; and an eviction takes one Pod at a time.
    slices = plane.admin.list(f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
                              labelSelector="kubernetes.io/service-name=deviceshare-extender")
    assert not any(item["endpoints"] for item in slices)
    budget = cluster.kubectl("--namespace", NAMESPACE, "get", "pdb", "deviceshare-extender",
                             "--output", "jsonpath={.spec.maxUnavailable}")
    assert budget == "1"


def may(plane, user, verb, group, resource, namespace="", subresource=""):
    review = plane.admin("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": ["system:serviceaccounts", "system:authenticated"],
                 "resourceAttributes": {"verb": verb, "group": group, "resource": resource,
                                        "subresource": subresource, "namespace": namespace}}})
    return review["status"]["allowed"]


ALLOWED = [
    ("list", "", "nodes"), ("watch", "", "nodes"),
    ("list", "scheduling.koordinator.sh", "devices"),
    ("watch", "scheduling.koordinator.sh", "devices"),
    ("get", "", "pods"), ("list", "", "pods"), ("watch", "", "pods"), ("patch", "", "pods"),
    ("create", "", "pods", "default", "binding"),
    ("create", "coordination.k8s.io", "leases", NAMESPACE),
    ("get", "coordination.k8s.io", "leases", NAMESPACE),
    ("update", "coordination.k8s.io", "leases", NAMESPACE),
]
DENIED = [
    ("update", "", "pods", "default"), ("create", "", "pods", "default"),
    ("delete", "", "pods", "default"), ("create", "", "pods", "default", "eviction"),
    ("patch", "", "pods", "default", "status"), ("create", "", "pods", NAMESPACE),
    ("patch", "", "nodes"), ("update", "scheduling.koordinator.sh", "devices"),
    ("update", "coordination.k8s.io", "leases", "kube-system"),
    ("create", "coordination.k8s.io", "leases", "kube-system"),
    ("list", "", "secrets", NAMESPACE), ("get", "", "secrets", NAMESPACE),
    ("get", "", "configmaps", NAMESPACE), ("create", "", "events", "default"),
]


def test_the_account_may_do_what_it_needs_and_no_more(plane, cluster, install):
    install("default-scheduler")
    user = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    cluster.wait(lambda: all(may(plane, user, *right) for right in ALLOWED), "the roles are in force")
    assert [right for right in DENIED if may(plane, user, *right)] == []


# ---- the whole of it, but for containers and networks ----

def scheduler_config(plane, overlay, form, certs, port):
    """An overlay's configuration of kube-scheduler for this stage."""
    text = (DEPLOY / "overlays" / overlay / f"{form}.yaml").read_text()
    text = re.sub(r"/etc/deviceshare/tls/tls", str(certs / "scheduler"), text)
    text = re.sub(r"/etc/(deviceshare/tls|kubernetes/deviceshare)", str(certs), text)
    text = re.sub(r"(urlPrefix: https://).*", rf"\g<1>127.0.0.1:{port}", text)
    client = f"clientConnection:\n  kubeconfig: {plane.scheduler_kubeconfig()}\n"
    text = re.sub(r"^clientConnection:\n.*\n", "", text, flags=re.M) + client
    # The only one here need not wait for a Lease that the one before it held.
    return text.replace("leaderElect: true", "leaderElect: false")


class Daemon:
    """The daemon as the Deployment starts it: its configuration, its Secret, its account, its Pod."""

    def __init__(self, plane, cluster, launch, certs, folder):
        self.plane, self.cluster, self.launch = plane, cluster, launch
        self.port, self.health = free_port(), free_port()
        for name, source in (("tls.crt", "server.crt"), ("tls.key", "server.key")):
            (certs / name).write_text((certs / source).read_text())
        config = (DEPLOY / "base" / "extender.yaml").read_text()
        for old, new in (("/etc/deviceshare/tls", str(certs)), ("port: 9443", f"port: {self.port}"),
                         ("port: 9877", f"port: {self.health}")):
            assert old in config
            config = config.replace(old, new)
        self.config = folder / "shipped.yaml"
        self.config.write_text(config)
        pod = objects.pod("extender-0")
        pod["metadata"]["labels"] = {"app.kubernetes.io/name": "deviceshare-extender"}
        pod["spec"].update(securityContext={"runAsNonRoot": True,
                                            "seccompProfile": {"type": "RuntimeDefault"}})
        pod["spec"]["containers"][0]["securityContext"] = {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        self.pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self.pod = plane.admin("POST", self.pods, pod)

    def start(self):
        metadata = self.pod["metadata"]
        kubeconfig = self.plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
        return self.launch(self.plane.process(
            "shipped-extender", parts.BUILD / "deviceshare-extender", "--config", self.config,
            "--kubeconfig", kubeconfig,
            env={"POD_NAME": metadata["name"], "POD_NAMESPACE": NAMESPACE,
                 "POD_UID": metadata["uid"]}).start())

    def readyz(self):
        """What a probe is told, whatever the status."""
        done = subprocess.run(["curl", "-s", "--noproxy", "*",
                               f"http://127.0.0.1:{self.health}/readyz"],
                              capture_output=True, text=True, timeout=30, check=False)
        return done.stdout

    def leads(self):
        labels = self.plane.admin.get(f"{self.pods}/{self.pod['metadata']['name']}")["metadata"]["labels"]
        return labels.get("deviceshare.io/leader") == "true"


@pytest.fixture
def daemon(plane, cluster, install, launch, tmp_path):
    install("default-scheduler", "admission-policy")
    return Daemon(plane, cluster, launch, certificates(tmp_path / "certs"), tmp_path)


@pytest.mark.parametrize("form", scheduler.FORMS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_is_bound_by_what_is_shipped(plane, cluster, daemon, start_scheduler, tmp_path,
                                           overlay, form):
    cluster.create_gpu_node("n1", objects.gpus(1), form == "advertised")
    daemon.start()
    cluster.wait(daemon.leads, "the daemon leads and says so on its Pod")
    # It may lead before it has listed everything.
    cluster.wait(lambda: daemon.readyz() == "ok", "the daemon is ready")
    start_scheduler(scheduler_config(plane, overlay, form, tmp_path / "certs", daemon.port))
    for name in ("one", "two"):
        cluster.create_pod(name, {GPU: 50}, schedulerName="deviceshare")
        annotations = cluster.wait_bound(name)["metadata"]["annotations"]
        assert annotations[VISIBLE] == "GPU-00000000" and '"minor":0' in annotations[ALLOCATED]
    cluster.create_pod("three", {GPU: 50}, schedulerName="deviceshare")
    cluster.wait_unschedulable("three", "Insufficient")


def test_a_missing_right_is_named(cluster, daemon):
    kubectl(cluster, "delete", "clusterrolebinding", "deviceshare-extender-wake")
    daemon.start()
    cluster.wait(lambda: "rights are missing: patch pods" in daemon.readyz(), "readyz names the right")


# ---- the admission policy ----

@pytest.fixture
def guarded(plane, cluster, install):
    """The policy in force; the extender's view of the API."""
    install("default-scheduler", "admission-policy")

    def in_force():
        try:
            cluster.create(annotated("probe", {ALLOCATED: "{}"}))
        except ApiError as refused:
            return refused.status == 403
        cluster.delete_pod("probe")
        return False
    cluster.wait(in_force, "the policy is in force")
    return plane.service_account(NAMESPACE, ACCOUNT)


def refused(call, *arguments, **more):
    with pytest.raises(ApiError) as caught:
        call(*arguments, **more)
    assert caught.value.status == 403, caught.value
    return caught.value.body["message"]


def binding(pod, node, annotations):
    return {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node},
            "metadata": {"name": pod, "annotations": annotations}}


def test_only_the_extender_writes_its_annotations(cluster, guarded):
    cluster.create_node("n1")
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/p"
    patch = cluster.api.patch
    for key in (ALLOCATED, VISIBLE, WOKEN_AT):
        assert key in refused(cluster.create, annotated("forged", {key: "x"}))

    # What users set is theirs, at every time.
    hint = "scheduling.koordinator.sh/device-allocate-hint"
    cluster.create(annotated("p", {hint: "{}", "note": "mine"}))
    patch(path, {"metadata": {"annotations": {"note": "changed", hint: "{} "}}})
    patch(path, {"metadata": {"labels": {"a": "b"}}})

    # Every way in: the pod, its status, its binding under both names.
    forged = {"metadata": {"annotations": {VISIBLE: "GPU-0"}}}
    for subresource in ("", "/status"):
        assert VISIBLE in refused(patch, path + subresource, forged)
    body = binding("p", "n1", {ALLOCATED: "{}", VISIBLE: "GPU-0"})
    for way in (path + "/binding", f"/api/v1/namespaces/{cluster.namespace}/bindings"):
        message = refused(cluster.api, "POST", way, body)
        assert ALLOCATED in message and VISIBLE in message and "deviceshare-extender" in message

    # The extender wakes and binds.
    guarded.patch(path, {"metadata": {"annotations": {WOKEN_AT: "now"}}})
    guarded("POST", path + "/binding", body)
    annotations = cluster.pod("p")["metadata"]["annotations"]
    assert annotations[ALLOCATED] == "{}" and annotations["note"] == "changed"

    # From then on nobody else changes them or takes them away, and everything else goes on.
    for value in ("[]", "", None):
        refused(patch, path, {"metadata": {"annotations": {ALLOCATED: value}}})
    refused(patch, path, {"metadata": {"annotations": None}})
    patch(path, {"metadata": {"annotations": {ALLOCATED: "{}", "note": "again"}}})
    cluster.finish_pod("p")
    cluster.delete_pod("p")


def test_other_schedulers_bind_as_before(plane, cluster, guarded, start_scheduler):
    start_scheduler(scheduler.plain(plane.scheduler_kubeconfig()))
    cluster.create_node("n1")
    cluster.create_pod("plain")
    cluster.wait_bound("plain")
