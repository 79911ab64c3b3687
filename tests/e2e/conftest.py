# SPDX-License-Identifier: Apache-2.0
"""Fixtures. One control plane serves all stories; each story has an empty cluster with a namespace
of its own, and its own kube-scheduler and daemon, which end with it."""
import re

import pytest

from stage import parts, scheduler
from stage.cluster import Cluster
from stage.extender import SHORT_TIMES, Extender
from stage.plane import ControlPlane

_processes = pytest.StashKey()


def pytest_report_header():
    return f"Kubernetes {parts.K8S_VERSION} from {parts.cache()}, daemon from {parts.BUILD}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A failed story shows where the logs are, and how they end."""
    report = (yield).get_result()
    if not report.failed or "plane" not in item.fixturenames:
        return
    for process in item.session.stash.get(_processes, []):
        state = "runs" if process.alive() else "has ended"
        report.sections.append((f"{process.name} {state}: {process.log_path}", process.tail()))


@pytest.fixture(scope="session")
def plane(request, tmp_path_factory):
    """etcd and kube-apiserver, which stay for the whole session."""
    stage = ControlPlane(tmp_path_factory.mktemp("stage"))
    request.session.stash[_processes] = stage.processes
    try:
        yield stage.start()
    finally:
        stage.stop()


@pytest.fixture
def cluster(request, plane):
    """An empty cluster that knows the Device resource."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    story = Cluster(plane, name[:63].rstrip("-"))
    story.install_device_crd()
    story.set_up()
    yield story
    story.tear_down()


@pytest.fixture
def launch(plane, cluster):
    """launch(process): keep a started process until the story ends, the last one ends first."""
    started = []

    def keep(process):
        started.append(process)
        return process

    yield keep
    for process in reversed(started):
        plane.end(process)


@pytest.fixture
def start_scheduler(plane, launch):
    """start_scheduler(config): a kube-scheduler with this configuration text."""
    return lambda config: launch(plane.scheduler(config))


@pytest.fixture
def start_controllers(plane, launch):
    """start_controllers(names...): a kube-controller-manager with these controllers."""
    return lambda *names: launch(plane.controller_manager(*names))


@pytest.fixture
def start_extender(plane, cluster, tmp_path):
    """start_extender(manifests=None, config="", flags=(), certs=None, ready=True): our daemon. It
    must live until the story ends, unless the story ends it, and end well."""
    started = []

    def begin(manifests=None, config="", flags=(), certs=None, ready=True):
        name = f"extender{len(started) or ''}"
        extender = Extender(tmp_path, manifests, config, flags, name, certs)
        plane.processes.append(extender)
        started.append(extender)
        return extender.start(ready)

    yield begin
    crashed = [extender for extender in started if not extender.alive() and not extender.ended]
    statuses = [plane.end(extender) for extender in started]
    assert not crashed, [extender.tail(40) for extender in crashed]
    assert all(status == 0 for status, extender in zip(statuses, started) if not extender.ended), \
        statuses


@pytest.fixture
def follow(plane, cluster, start_extender):
    """follow(config="", **more): our daemon on the real API server, with short times."""
    def begin(config="", **more):
        kubeconfig = plane.certificate_kubeconfig("deviceshare", "system:masters",
                                                  cluster.namespace)
        return start_extender(config=SHORT_TIMES + config, flags=["--kubeconfig", kubeconfig],
                              **more)
    return begin


@pytest.fixture(params=scheduler.FORMS)
def form(request):
    """Both forms of the shipped scheduler configuration, one after the other."""
    return request.param


def pytest_unconfigure(config):
    """The sum, last and in the form that all parts of the suite share."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        bad = sum(len(reporter.stats.get(kind, [])) for kind in ("failed", "error"))
        print(f"{len(reporter.stats.get('passed', []))} passed, {bad} failed")
