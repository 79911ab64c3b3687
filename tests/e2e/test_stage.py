# SPDX-License-Identifier: Apache-2.0
"""The stage holds what the other stories build on, without our daemon."""
import pytest

from stage import objects, scheduler
from stage.api import ApiError
from stage.objects import CORE, MEMORY
from stage.process import wait_until


def test_kube_scheduler_binds_a_plain_pod(plane, cluster, start_scheduler):
    start_scheduler(scheduler.plain(plane.scheduler_kubeconfig()))
    cluster.create_node("n1")
    mark = plane.audit_mark()
    cluster.kubectl("apply", "--filename", "-", stdin="""
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"},
         "spec": {"containers": [{"name": "main", "image": "registry.example/image"}]}}""")
    assert cluster.wait_bound("plain")["spec"]["nodeName"] == "n1"
    # The audit log counts what was written to a pod, and by whom.
    wait_until(lambda: plane.audit(mark, resource="pods", subresource="binding"), "it is audited")
    writes = plane.audit(mark, user="system:kube-scheduler", resource="pods", name="plain")
    assert [(write.subresource, write.status) for write in writes] == [("binding", 201)]


def test_a_burst_by_many_writers(plane, cluster, start_scheduler):
    start_scheduler(scheduler.plain(plane.scheduler_kubeconfig()))
    for name in ("n1", "n2"):
        cluster.create_node(name)
    cluster.create_many([objects.pod(f"p{number}") for number in range(80)])
    nodes = [item["spec"]["nodeName"] for item in cluster.wait_all_bound(80)]
    assert set(nodes) == {"n1", "n2"}


def test_devices_as_agents_write_them(cluster):
    card = objects.gpu(0, conditions=[{"type": "Healthy", "status": "True"}],
                       topology={"socketID": -1, "nodeID": 0, "pcieID": "pci0000:3a"},
                       fromTheFuture={"kept": True})
    # A resource may be a number or a text.
    card["resources"] = {CORE: 100, MEMORY: "80Gi"}
    written = cluster.create_device("n1", card)
    assert written["spec"]["devices"] == [card]
    assert cluster.update_device("n1", {**card, "health": False})["spec"]["devices"][0] == {
        **card, "health": False}
    assert "n1" in cluster.kubectl("get", "devices")


@pytest.mark.parametrize("field, value", [
    ("resources", {CORE: "much"}), ("minor", "first"), ("health", "yes")])
def test_a_device_that_is_none_is_refused(cluster, field, value):
    with pytest.raises(ApiError) as refused:
        cluster.create_device("n1", {**objects.gpu(0), field: value})
    assert refused.value.status == 422
    assert f"spec.devices[0].{field}" in refused.value.body["message"]


def test_controllers_make_pods_and_count_them(plane, cluster, start_scheduler, start_controllers):
    start_scheduler(scheduler.plain(plane.scheduler_kubeconfig()))
    start_controllers("deployment-controller", "replicaset-controller", "disruption-controller",
                      "endpointslice-controller")
    cluster.create_node("n1")
    cluster.kubectl("create", "deployment", "web", "--image", "registry.example/image",
                    "--replicas", "2", "--port", "80")
    cluster.kubectl("expose", "deployment", "web")
    cluster.kubectl("create", "poddisruptionbudget", "web", "--selector", "app=web",
                    "--min-available", "1")
    assert len(cluster.wait_all_bound(2)) == 2
    base = f"namespaces/{cluster.namespace}"
    budget = f"/apis/policy/v1/{base}/poddisruptionbudgets/web"
    cluster.wait(lambda: cluster.api.get(budget).get("status", {}).get("expectedPods") == 2,
                 "the budget counts both pods")
    slices = f"/apis/discovery.k8s.io/v1/{base}/endpointslices"
    cluster.wait(lambda: cluster.api.list(slices), "the service has an EndpointSlice")
    cluster.kubectl("delete", "deployment", "web")


def test_a_service_account_may_do_what_its_roles_say(plane, cluster):
    cluster.kubectl("create", "serviceaccount", "reader")
    api = plane.service_account(cluster.namespace, "reader")
    with pytest.raises(ApiError) as refused:
        api.list("/api/v1/nodes")
    assert refused.value.status == 403
    cluster.kubectl("create", "clusterrole", "e2e-reader", "--verb", "list", "--resource", "nodes")
    cluster.kubectl("create", "clusterrolebinding", "e2e-reader", "--clusterrole", "e2e-reader",
                    "--serviceaccount", f"{cluster.namespace}:reader")
    try:
        wait_until(api.polling(lambda: may_list(api)), "the role is in force")
        kubeconfig = plane.service_account_kubeconfig(cluster.namespace, "reader")
        assert cluster.kubectl("--kubeconfig", str(kubeconfig), "get", "nodes") == ""
        assert cluster.kubectl("--kubeconfig", str(kubeconfig), "get", "pods",
                               check=False).returncode != 0
    finally:
        cluster.kubectl("delete", "clusterrolebinding,clusterrole", "e2e-reader")


def may_list(api):
    try:
        api.list("/api/v1/nodes")
        return True
    except ApiError as error:
        assert error.status == 403
        return False


def test_a_pod_ends_as_with_a_kubelet(plane, cluster, start_scheduler):
    start_scheduler(scheduler.plain(plane.scheduler_kubeconfig()))
    cluster.create_node("n1")
    for name in ("done", "leaving"):
        cluster.create_pod(name)
        cluster.wait_bound(name)
    cluster.finish_pod("done")
    assert cluster.pod("done")["status"]["phase"] == "Succeeded"
    cluster.mark_terminating("leaving")
    assert "deletionTimestamp" in cluster.pod("leaving")["metadata"]
    cluster.delete_pod("leaving")
    assert cluster.pod("leaving") is None


def test_the_control_plane_survives_a_crash(plane, cluster):
    cluster.create_node("n1")
    for process in (plane.apiserver, plane.etcd):
        process.kill()
    for process in (plane.etcd, plane.apiserver):
        process.start()
    plane.wait_ready()
    assert cluster.wait(lambda: cluster.api.find("/api/v1/nodes/n1"), "the node is still known")
