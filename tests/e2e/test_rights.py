# SPDX-License-Identifier: Apache-2.0
"""The daemon with exactly the rights that deploy/ gives its ServiceAccount, and with one less."""
import copy

import pytest

from stage import parts, scheduler
from stage.checker import check
from stage.extender import SHORT_TIMES
from stage.objects import gpu, gpus, percent

DEPLOY = parts.ROOT / "deploy"
NAMESPACE, ACCOUNT = "deviceshare-system", "deviceshare-extender"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = (f"{RBAC}/clusterroles/deviceshare-extender", f"{RBAC}/clusterroles/deviceshare-extender-wake",
         f"{RBAC}/namespaces/{NAMESPACE}/roles/deviceshare-extender")
FILES = [DEPLOY / "base" / "namespace.yaml", DEPLOY / "base" / "rbac.yaml",
         DEPLOY / "components" / "wake" / "rbac.yaml"]


def may(plane, group, resource, verb, namespace=""):
    """Whether the account may; in all namespaces, or in one."""
    resource, _, subresource = resource.partition("/")
    review = plane.admin("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": USER, "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": namespace}}})
    return review["status"]["allowed"]


@pytest.fixture
def account(plane, cluster):
    """The shipped rights in force; a kubeconfig of the account that has them."""
    cluster.kubectl("apply", "--namespace=", *(f"--filename={path}" for path in FILES))
    cluster.wait(lambda: may(plane, "", "pods/binding", "create") and may(plane, "", "pods", "patch"),
                 "the roles are in force")
    yield plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
    # The Namespace would stay in deletion for ever: nobody empties it here.
    cluster.kubectl("delete", "--namespace=", *(f"--filename={path}" for path in FILES[1:]))


def test_with_the_shipped_rights_everything_works(plane, cluster, account, start_extender,
                                                  start_scheduler):
    """Follow, lead, bind, wake: nothing that the daemon writes is forbidden to it."""
    cluster.create_gpu_node("n1", gpus(1), False)
    mark = plane.audit_mark()
    daemon = start_extender(config=SHORT_TIMES, flags=["--kubeconfig", account])
    start_scheduler(scheduler.shipped("not-advertised", plane.scheduler_kubeconfig(), daemon.url))
    cluster.create_pod("first", percent(50))
    cluster.wait_bound("first")
    cluster.update_device("n1", gpu(0, health=False))
    cluster.wait(lambda: not daemon.card("n1", 0)["usable"], "the daemon sees the sick card")
    cluster.create_pod("waits", percent(50))
    cluster.wait_unschedulable("waits")
    cluster.update_device("n1", gpu(0))
    cluster.wait_bound("waits", 10)
    check(cluster.api, pods=2)

    wrote = plane.audit(mark, user=USER)
    assert {entry.status for entry in wrote} <= {200, 201}
    assert {("pods", "binding", "create"), ("pods", None, "patch"), ("leases", None, "update")} <= \
        {(entry.resource, entry.subresource, entry.verb) for entry in wrote}


def each_right(plane):
    """(path of the role, the role without the right, group, resource, verb)."""
    for path in ROLES:
        role = plane.admin.get(path)
        for number, rule in enumerate(role["rules"]):
            assert len(rule["apiGroups"]) == len(rule["resources"]) == 1
            for verb in rule["verbs"]:
                less = copy.deepcopy(role)
                less["rules"][number]["verbs"].remove(verb)
                if not less["rules"][number]["verbs"]:
                    del less["rules"][number]
                yield path, less, rule["apiGroups"][0], rule["resources"][0], verb


def test_each_right_that_is_missing_is_named(plane, cluster, account, start_extender):
    daemon, named = None, 0
    for path, less, group, resource, verb in each_right(plane):
        whole = plane.admin.get(path)
        less["metadata"]["resourceVersion"] = whole["metadata"]["resourceVersion"]
        plane.admin("PUT", path, less)
        # About its own Pods' labels it has rights in its namespace that others of its roles include:
        # those are for an installation without the right to wake.
        namespace = NAMESPACE if path == ROLES[2] else ""
        if namespace and resource == "pods":
            assert may(plane, group, resource, verb)
        else:
            cluster.wait(lambda: not may(plane, group, resource, verb, namespace),
                         "the role is changed")
            if daemon is None:
                daemon = start_extender(config=SHORT_TIMES, flags=["--kubeconfig", account],
                                        ready=False)
            else:
                daemon.start(ready=False)
            name = f"{verb} {resource}{'.' + group if group else ''}"
            cluster.wait(lambda: f"rights are missing: {name}" in daemon.readyz(),
                         f"readyz names: {name}", 10)
            assert "," not in daemon.readyz().partition("rights are missing")[2], "and no other"
            daemon.crash()
            named += 1
        plane.admin("PUT", path, {**whole, "metadata": {"name": whole["metadata"]["name"]}})
        cluster.wait(lambda: may(plane, group, resource, verb, namespace), "the role is whole again")
    assert named == 12
