# SPDX-License-Identifier: Apache-2.0
"""docs/guide.md as a newcomer follows it: its own commands, word by word, in a copy of deploy/, against
a real API server; what they install runs (stage/shipped.py), is upgraded, rolled back and removed."""
import os
import re
import shutil
import subprocess

import pytest

from stage import parts, scheduler
from stage.checker import check
from stage.objects import VISIBLE
from stage.process import wait_until
from stage.shipped import Node

NAMESPACE = "deviceshare-system"
OVERLAY = "deploy/overlays/second-scheduler"
# In the range of this stage, as step 6 says that a user does it for another range than kubeadm's.
ADDRESS = "10.0.0.14"
# What the guide runs on a machine with two cards.
STUBS = {
    "hostname": "echo $MACHINE",
    "nvidia-smi": r"printf '0, GPU-%s-0, 81920\n1, GPU-%s-1, 81920\n' $MACHINE $MACHINE",
}


def blocks(document, title):
    """[(language, text)] of the fenced blocks of one section."""
    text = (parts.ROOT / "docs" / document).read_text()
    section, = re.findall(rf"^#+ {title}.*?\n(.*?)(?=^##+ |\Z)", text, re.M | re.S)
    return re.findall(r"^```(\w*)\n(.*?)^```$", section, re.M | re.S)


def commands(document, title):
    return [text for language, text in blocks(document, title) if language == "sh"]


class Reader:
    """Who follows the guide, in a folder of his own."""

    def __init__(self, cluster, folder, node):
        self.folder, self.node = folder, node
        shutil.copytree(parts.ROOT / "deploy", folder / "deploy")
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(parts.binary("kubectl"))
        for name, text in STUBS.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        self.env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}",
                    "KUBECONFIG": str(cluster.kubeconfig), "KUBECACHEDIR": str(folder / "cache"),
                    "no_proxy": "*"}

    def run(self, text, statuses=(0,), machine=""):
        """What the commands print. Meanwhile the cluster goes on."""
        text = text.replace("10.43.0.76", ADDRESS)
        out = self.folder / "said"
        with open(out, "w", encoding="utf-8") as said, subprocess.Popen(
                ["bash", "-c", text], cwd=self.folder, env={**self.env, "MACHINE": machine},
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT) as process:
            def ended():
                self.node.sync()
                return process.poll() is not None
            try:
                wait_until(self.node.plane.admin.polling(ended), f"done: {text}", 120)
            finally:
                process.kill()
        said = out.read_text()
        assert process.returncode in statuses, f"{text}\n{said}"
        return said

    def edit(self, path, old, new):
        path = self.folder / path
        text = path.read_text()
        assert text.count(old) == 1, f"{old} stands {text.count(old)} times in {path}"
        path.write_text(text.replace(old, new))


@pytest.fixture
def reader(plane, cluster, start_scheduler, start_controllers, tmp_path):
    start_scheduler(scheduler.plain(plane.scheduler_kubeconfig()))
    start_controllers("deployment-controller", "replicaset-controller", "disruption-controller",
                      "endpointslice-controller")
    cluster.kubectl("delete", "crd", "devices.scheduling.koordinator.sh")
    # Of another story, whose authority is another.
    cluster.kubectl("delete", "secrets", "--all", f"--namespace={NAMESPACE}")
    for name in ("n1", "n2"):
        cluster.create_node(name, {"kubernetes.io/os": "linux"})
    cluster.kubectl("create", "--filename=-", stdin="""
        {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}""")
    node = Node(plane, NAMESPACE, tmp_path / "pods", "deviceshare-extender", ADDRESS)
    made = Reader(cluster, tmp_path, node)
    yield made
    # Nobody collects here what Deployments leave, and nobody would empty the Namespace.
    for path in (f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
                 f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"):
        plane.admin("DELETE", path)
    node.stop()
    built = made.run(f"kubectl kustomize {OVERLAY}")
    rest = [text for text in built.split("\n---\n") if "\nkind: Namespace\n" not in "\n" + text]
    cluster.kubectl("delete", "--namespace=", "--filename=-", "--ignore-not-found",
                    "--grace-period=0", stdin="\n---\n".join(rest))
    cluster.kubectl("delete", "runtimeclass", "nvidia")


def leader(reader):
    """The one Pod with the leader's label."""
    table = reader.run(f"kubectl -n {NAMESPACE} get pods -L deviceshare.io/leader")
    found = [line.split()[0] for line in table.splitlines() if line.endswith("true")]
    return found[0] if len(found) == 1 else None


def first_share(cluster, reader):
    """Steps 1 to 9."""
    steps = {number: commands("guide.md", rf"{number}\. ") for number in range(1, 10)}
    assert "n1     <none>" in reader.run(steps[1][0], (0, 1))
    # Step 2 is `make test-image`.
    assert reader.run(steps[3][0]).strip() in (parts.ROOT / "docs" / "guide.md").read_text()
    for machine in ("n1", "n2"):
        reader.run(steps[4][0], machine=machine)
    form, = (text for language, text in blocks("guide.md", r"5\. ") if language == "yaml")
    assert "- scheduler.yaml=not-advertised.yaml" in form
    reader.edit(f"{OVERLAY}/kustomization.yaml", "- scheduler.yaml=advertised.yaml",
                "- scheduler.yaml=not-advertised.yaml")
    assert reader.run(steps[6][0]) == blocks("guide.md", r"6\. ")[1][1]
    reader.edit(f"{OVERLAY}/kustomization.yaml", "newTag: v1.36.3", f"newTag: v{parts.K8S_VERSION}")
    reader.run(steps[7][0])
    said = reader.run(steps[8][0])
    assert said.count("successfully rolled out") == 2, said
    wait_until(lambda: leader(reader), "one Pod has the leader's label")
    reader.run(f"kubectl config set-context --current --namespace={cluster.namespace}; {steps[9][0]}"
               .replace("kubectl logs one", ""))
    both = [placed(cluster, reader, name) for name in ("one", "two")]
    assert all(ids.startswith(f"GPU-{where}-") for where, ids in both), both


def placed(cluster, reader, name):
    """(node, cards) of a pod, once it has them."""
    def bound():
        reader.node.sync()
        pod = cluster.pod(name)
        return pod if pod["spec"].get("nodeName") else None
    pod = cluster.wait(bound, f"{name} is bound")
    return pod["spec"]["nodeName"], pod["metadata"]["annotations"][VISIBLE]


def share_again(cluster, reader, name):
    reader.run(re.sub("for name in .*;", f"for name in {name};", commands("guide.md", r"9\. ")[0])
               .replace("kubectl logs one", ""))
    placed(cluster, reader, name)


def test_ten_steps_upgrade_and_roll_back(plane, cluster, reader):
    first_share(cluster, reader)
    check(cluster.api, pods=2)

    # The views of the troubleshooting page, as they are seen through a port-forward.
    lead = leader(reader)
    address = reader.node.addresses[lead][1]
    view = next(text for text in commands("troubleshooting.md", "Troubleshooting") if "view()" in text)
    said = reader.run(view.replace("127.0.0.1", address).replace("node=gpu-a", "node=n1"))
    assert '"GPU-n1-0"' in said and '"GPU-n2-0"' not in said, said
    ready = reader.node.get(lead, 9877, "/readyz?verbose")
    assert ready[0] == 200 and "[ ]leader leads" in ready[1], ready

    # A changed configuration is a rollout; the one before comes back with `rollout undo`.
    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/deviceshare-extender"

    def config():
        volumes = plane.admin.get(deployment)["spec"]["template"]["spec"]["volumes"]
        name, = (volume["configMap"]["name"] for volume in volumes if "configMap" in volume)
        return name, plane.admin.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")["data"]
    before = config()
    reader.edit("deploy/base/extender.yaml", "drainTimeout: 20s", "drainTimeout: 19s")
    reader.run(commands("guide.md", "Upgrade")[0])
    wait_until(lambda: leader(reader) not in (None, lead), "a new Pod leads")
    assert config()[0] != before[0] and "19s" in config()[1]["extender.yaml"]
    share_again(cluster, reader, "upgraded")
    reader.run(commands("guide.md", "Roll back")[0]
               + f"\nkubectl -n {NAMESPACE} rollout status deployment/deviceshare-extender")
    assert config() == before
    share_again(cluster, reader, "back")
    check(cluster.api, pods=4)

    # Who leads dies, and another Pod takes its place behind the Service.
    lead = wait_until(lambda: leader(reader), "one Pod leads")
    reader.node.processes[lead].kill()
    plane.admin.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{lead}", grace=0)
    share_again(cluster, reader, "after")
    assert leader(reader) not in (None, lead)
    check(cluster.api, pods=5)
