# SPDX-License-Identifier: Apache-2.0
"""HTTPS between kube-scheduler and the daemon, with the shipped configurations' own keys and the
certificates of the shipped script: each side verifies the other, and without that nothing is bound."""
import shutil
import subprocess

import pytest

from stage import parts, scheduler
from stage.caller import Caller, bind_body
from stage.checker import check
from stage.objects import gpus, percent

MAKE_CERTS = parts.ROOT / "deploy" / "certs" / "make-certs.sh"


def make_certs(folder):
    subprocess.run([MAKE_CERTS, "-i", "127.0.0.1", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    """What the script makes, and a client of the same authority whom no configuration names."""
    folder = make_certs(tmp_path_factory.mktemp("certs") / "ours")
    subprocess.run(
        ["openssl", "req", "-x509", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-nodes",
         "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2",
         "-subj", "/CN=somebody-else", "-addext", "basicConstraints=critical,CA:FALSE",
         "-addext", "extendedKeyUsage=clientAuth",
         "-out", folder / "somebody.crt", "-keyout", folder / "somebody.key"],
        check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Certificates of the same names, by another authority."""
    return make_certs(tmp_path_factory.mktemp("certs") / "others")


@pytest.fixture
def start(plane, follow, certs, start_scheduler):
    """start(form, folder, **files): the daemon with the certificates of a folder, and a
    kube-scheduler that asks it over HTTPS with these files of tlsConfig, or else with those it should
    have."""
    def begin(form="not-advertised", folder=certs, **files):
        daemon = follow(certs=folder)
        right = {"caFile": folder / "ca.crt", "certFile": folder / "scheduler.crt",
                 "keyFile": folder / "scheduler.key"}
        text = scheduler.shipped(form, plane.scheduler_kubeconfig(), daemon.url)
        start_scheduler(scheduler.over_https(text, **{**right, **files}))
        return daemon
    return begin


def test_both_sides_verify_each_other(cluster, form, start):
    cluster.create_gpu_node("n1", gpus(1), form == "advertised")
    daemon = start(form)
    for name in ("a", "b"):
        cluster.create_pod(name, percent(50))
        cluster.wait_bound(name)
    cluster.create_pod("c", percent(50))
    cluster.wait_unschedulable("c", "Insufficient")
    check(cluster.api, pods=2)
    assert daemon.readyz() == "ok"


@pytest.mark.parametrize("wrong, told", [
    ("server's authority", "certificate signed by unknown authority"),
    ("server's name", "certificate is valid for"),
    ("client's authority", "403"),
    ("client's name", "403"),
])
def test_who_is_not_verified_binds_nothing(cluster, certs, others, start, wrong, told):
    cluster.create_gpu_node("n1", gpus(1), False)
    start(**{
        "server's authority": {"caFile": others / "ca.crt"},
        "server's name": {"serverName": "deviceshare-extender.elsewhere.svc"},
        "client's authority": {"certFile": others / "scheduler.crt",
                               "keyFile": others / "scheduler.key"},
        # Of the right authority, but not the one that the daemon's configuration names.
        "client's name": {"certFile": certs / "somebody.crt", "keyFile": certs / "somebody.key"},
    }[wrong])
    cluster.create_pod("half", percent(50))
    cluster.create_pod("plain")
    cluster.wait_event("half", "FailedScheduling", told)
    # The event may come first.
    cluster.wait(lambda: cluster.condition("half").get("reason") == "SchedulerError",
                 "the condition says that it is the scheduler's")
    cluster.wait_bound("plain")
    assert not cluster.pod("half")["spec"].get("nodeName")


def test_a_bind_without_a_certificate(plane, cluster, certs, others, follow):
    """Whoever reaches the port can ask; only kube-scheduler is answered."""
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon = follow(certs=certs)
    daemon.wait_open()
    pod = cluster.create_pod("p", percent(50))
    mark = plane.audit_mark()
    strangers = {
        "nobody": Caller(daemon.url, certs / "ca.crt"),
        "another authority's": Caller(daemon.url, certs / "ca.crt", others / "scheduler.crt",
                                      others / "scheduler.key"),
        "another name": Caller(daemon.url, certs / "ca.crt", certs / "somebody.crt",
                               certs / "somebody.key"),
    }
    for who, caller in strangers.items():
        assert caller.post("bind", bind_body(pod, "n1"))[0] == 403, who
        arguments = {"Pod": pod, "Nodes": None, "NodeNames": ["n1"]}
        for verb in ("filter", "prioritize", "preempt"):
            assert caller.post(verb, arguments)[0] == 403, (who, verb)
    assert not cluster.pod("p")["spec"].get("nodeName")
    assert plane.audit(mark, resource="pods", user="deviceshare") == []

    kube_scheduler = Caller(daemon.url, certs / "ca.crt", certs / "scheduler.crt",
                            certs / "scheduler.key")
    assert kube_scheduler.bind(pod, "n1") == ""
    check(cluster.api, pods=1)


def test_certificates_are_renewed_while_pods_come(cluster, certs, start, tmp_path):
    """A renewal as make-certs.sh and the guide do it: same authority, new files in place."""
    folder = shutil.copytree(certs, tmp_path / "renewed")
    cluster.create_gpu_node("n1", gpus(1), False)
    daemon = start(folder=folder)
    cluster.create_pod("before", percent(40))
    cluster.wait_bound("before")
    for name in ("scheduler.crt", "server.crt"):
        (folder / name).unlink()
    make_certs(folder)
    # It looks at every probe and at every connection.
    cluster.wait(lambda: daemon.readyz() == "ok" and "TLS files loaded" in daemon.log(),
                 "the daemon has read the new certificate")
    cluster.create_pod("after", percent(40))
    cluster.wait_bound("after")
    check(cluster.api, pods=2)
