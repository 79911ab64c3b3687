# SPDX-License-Identifier: Apache-2.0
"""Labels of a Namespace are defaults of its pods, read with the rights that deploy/ ships."""
from stage import scheduler
from stage.extender import SHORT_TIMES
from stage.objects import gpus, percent
from stage.placement import places
from test_rights import ACCOUNT, DEPLOY, FILES, NAMESPACE, may

COMPONENT = DEPLOY / "components" / "namespace-labels" / "rbac.yaml"
CONFIG = SHORT_TIMES + """policy:
  namespaceLabels: true
  node: binpack
  nodeStrength: require
  inFlightWait: 100ms
"""


def label(cluster, value):
    cluster.api.patch(f"/api/v1/namespaces/{cluster.namespace}",
                      {"metadata": {"labels": {"deviceshare.io/node-policy": value}}})


def place(cluster, names):
    for name in names:
        cluster.create_pod(name, percent(10))
        cluster.wait_bound(name)
    found = places(cluster.api)
    for name in names:
        cluster.delete_pod(name)
    cluster.wait(lambda: not cluster.pods(), "the pods are gone")
    return found


def test_labels_of_a_namespace(plane, cluster, start_extender, start_scheduler):
    files = [*FILES, COMPONENT]
    cluster.kubectl("apply", "--namespace=", *(f"--filename={path}" for path in files))
    cluster.wait(lambda: may(plane, "", "namespaces", "watch") and may(plane, "", "pods", "patch"),
                 "the roles are in force")
    for name in ("n1", "n2"):
        cluster.create_gpu_node(name, gpus(1), False)
    account = plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
    daemon = start_extender(config=CONFIG, flags=["--kubeconfig", account])
    start_scheduler(scheduler.shipped("not-advertised", plane.scheduler_kubeconfig(), daemon.url))
    assert sorted(map(sum, place(cluster, ["a", "b"]).values())) == [2]
    label(cluster, "spread")
    cluster.wait(lambda: sorted(map(sum, place(cluster, ["a", "b"]).values())) == [1, 1],
                 "the label counts")
    label(cluster, "tight")
    cluster.wait(lambda: daemon.sample("deviceshare_bad_objects_total", kind="namespace") > 0,
                 "the label is no policy")
    assert sorted(map(sum, place(cluster, ["a", "b"]).values())) == [2]
    label(cluster, None)
    cluster.kubectl("delete", "--namespace=", *(f"--filename={path}" for path in files[1:]))


def test_without_the_right_it_is_not_ready(plane, cluster, start_extender):
    cluster.kubectl("apply", "--namespace=", *(f"--filename={path}" for path in FILES))
    cluster.wait(lambda: may(plane, "", "pods", "patch"), "the roles are in force")
    account = plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
    daemon = start_extender(config=CONFIG, flags=["--kubeconfig", account], ready=False)
    cluster.wait(lambda: "list namespaces, watch namespaces" in daemon.readyz(), "readyz names it")
    cluster.kubectl("delete", "--namespace=", *(f"--filename={path}" for path in FILES[1:]))
