# SPDX-License-Identifier: Apache-2.0
"""Who may decide: the Lease, a predecessor that left in order or not, rights that are missing, and
credentials that cannot be used."""
import json
import re
import signal
import subprocess
import threading
import time

import pytest

from fake_apiserver import Fault
from follower import BIND_SECONDS, DELIVERY_SECONDS, LEASE, LEASE_SECONDS, TIMES, allocations, check
from support import EXTENDER, gpu_node, percent, pod, wait_until

LEASES = "/leases"
PODS = r"^/api/v1/pods\?limit"


def lease(api):
    return api.get("Lease", LEASE)


def bind_after(daemon):
    """Milliseconds from the beginning of its term to the first binding that may go out, and what it
    says of its predecessor, as a process logs them."""
    found = re.findall(r'"Bindings may go out" afterMs=(\d+) predecessor="([^"]*)"', daemon.log())
    return int(found[-1][0]), found[-1][1]


def steal(api, holder):
    """Somebody else writes himself into the Lease."""
    def write(stored):
        stored["spec"].update(holderIdentity=holder, leaseDurationSeconds=2,
                              renewTime="2026-01-01T00:00:00.000000Z")
        stored["metadata"].get("annotations", {}).pop("deviceshare.io/clean-stop", None)
    api.change("Lease", LEASE, write)


# ---- one after the other ----

def test_who_follows_a_clean_stop_does_not_wait(api, follow):
    api.put(*gpu_node("n1", 1), pod("p", percent(50)), pod("q", percent(50)))
    first = follow().wait_open()
    assert first.schedule("p", ["n1"]) == "n1"
    holder = lease(api)["spec"]["holderIdentity"]
    assert first.stop() == 0
    left = lease(api)
    assert not left["spec"].get("holderIdentity")
    assert left["metadata"]["annotations"]["deviceshare.io/clean-stop"] == holder
    second = follow().wait_open()
    waited, predecessor = bind_after(second)
    assert predecessor == "stopped cleanly" and waited < 1000 * (BIND_SECONDS + DELIVERY_SECONDS)
    assert second.schedule("q", ["n1"]) == "n1"
    check(api, second)


def test_who_follows_a_killed_process_waits(api, follow):
    """A binding of the killed one is committed after the new one has listed everything."""
    api.put(*gpu_node("n1", 1), *gpu_node("n2", 1), pod("late", percent(100)),
            pod("p", percent(100)))
    first = follow().wait_open()
    stored = first.pod("late")
    holder = lease(api)["spec"]["holderIdentity"]
    killed = time.monotonic()
    first.kill()
    assert lease(api)["spec"]["holderIdentity"] == holder
    second = follow()
    wait_until(lambda: second.readiness()[0] == 200, "synced on a replica that does not lead")
    refused = second.post("/filter", second.arguments(second.pod("p"), ["n1", "n2"])).json
    assert refused["Error"] and not refused["NodeNames"]
    read = threading.Event()
    api.fault("GET", PODS, Fault(held=read))
    wait_until(lambda: '"Lease acquired"' in second.log(), "the Lease has expired")
    assert time.monotonic() - killed > LEASE_SECONDS - 1
    # It answers filter, and binds nothing: the card of n1 may be taken at this very moment.
    assert "n1" in second.filter(second.pod("p"), ["n1"])["NodeNames"]
    assert "bindings of a process before this one may still arrive" in second.bind(
        second.pod("p"), "n1")
    api.silence("Pod")
    api.store.bind("default", "late", {
        "metadata": {"uid": stored["metadata"]["uid"], "annotations": {
            "scheduling.koordinator.sh/device-allocated": json.dumps(
                {"gpu": [{"minor": 0, "resources": percent(100)}]})}},
        "target": {"name": "n1"}})
    read.set()
    second.wait_open()
    waited, predecessor = bind_after(second)
    assert predecessor == "waited for" and waited >= 1000 * (BIND_SECONDS + DELIVERY_SECONDS)
    assert second.bind(second.pod("p"), "n1") != "", "the consistent read has seen it"
    assert second.bind(second.pod("p"), "n2") == ""
    check(api, second)
    assert len(allocations(api)) == 2


def test_the_list_before_the_first_bind_begins_no_sooner_than_told(api, follow):
    """It is wanted T + D after the term began, and the API server has asked for more patience."""
    api.put(*gpu_node("n1"), pod("p", percent(50)))
    api.change("Lease", LEASE, lambda stored: stored["metadata"]["annotations"].clear())
    api.fault("GET", PODS, Fault(status=429, reason="TooManyRequests",
                                 headers={"Retry-After": "5"}))
    daemon = follow().wait_open()
    first, second = api.seen("GET", PODS)[:2]
    assert second.time - first.time >= 5
    assert bind_after(daemon)[1] == "waited for"
    assert daemon.schedule("p", ["n1"]) == "n1"
    check(api, daemon)


def test_a_stop_with_an_unknown_binding_is_not_clean(api, follow):
    api.put(*gpu_node("n1", 1), pod("p", percent(100)))
    daemon = follow().wait_open()
    api.fault("POST", "/binding", Fault(then="reset"))
    api.fault("GET", "/pods/p$", Fault(status=500), times=100)
    assert daemon.bind(daemon.pod("p"), "n1") != ""
    assert daemon.stop() == 0
    left = lease(api)
    assert left["spec"]["holderIdentity"]
    assert "deviceshare.io/clean-stop" not in left["metadata"].get("annotations", {})


# ---- conflicts ----

def test_conflicts_of_the_lease_that_go_by(api, follow):
    api.put(*gpu_node("n1", 1), pod("p", percent(50)), pod("q", percent(50)))
    daemon = follow().wait_open()
    assert daemon.schedule("p", ["n1"]) == "n1"
    api.fault("PUT", LEASES, Fault(status=409, reason="Conflict"), times=2)
    api.fault("PUT", LEASES, Fault(status=500), times=2)
    api.fault("PUT", LEASES, Fault(then="reset", applied=True), times=2)
    api.change("Lease", LEASE, lambda stored: stored["metadata"].setdefault(
        "labels", {}).update(touched="yes"))
    # Some renewals later it still leads, in the same term.
    renewed = lease(api)["spec"]["renewTime"]
    before = len(api.seen("PUT", LEASES))
    wait_until(lambda: len(api.seen("PUT", LEASES)) > before + 8, "it renews on")
    assert lease(api)["spec"]["renewTime"] > renewed
    assert lease(api)["metadata"]["labels"] == {"touched": "yes"}, "what others wrote stays"
    assert daemon.bindings_open() == 1
    assert daemon.schedule("q", ["n1"]) == "n1"
    check(api, daemon)


def test_a_lease_that_somebody_takes(api, follow):
    api.put(*gpu_node("n1", 2), pod("p", percent(100)), pod("q", percent(100)))
    daemon = follow().wait_open()
    assert daemon.schedule("p", ["n1"]) == "n1"
    steal(api, "other")
    stored = daemon.pod("q")
    wait_until(lambda: '"Lease lost"' in daemon.log(), "it notices")
    assert daemon.post("/filter", daemon.arguments(stored, ["n1"])).json["Error"]
    assert daemon.prioritize(stored, ["n1"]) == {}
    assert daemon.bind(stored, "n1") != "" and len(api.seen("POST", "/binding")) == 1
    assert daemon.readiness()[0] == 200, "a replica that stands by is ready"
    # The other one is never heard of again, and has left no mark.
    wait_until(lambda: daemon.bindings_open() == 2, "it leads again")
    assert bind_after(daemon)[1] == "waited for"
    assert daemon.schedule("q", ["n1"]) == "n1"
    check(api, daemon)


def test_a_lease_that_cannot_be_renewed(api, follow):
    api.put(*gpu_node("n1", 2), pod("p", percent(100)), pod("q", percent(100)))
    daemon = follow().wait_open()
    assert daemon.schedule("p", ["n1"]) == "n1"
    stored = daemon.pod("q")
    api.fault("PUT", LEASES, Fault(then="silent"), times=1000)
    api.fault("GET", LEASES, Fault(then="silent"), times=1000)
    time.sleep(LEASE_SECONDS)
    assert daemon.bind(stored, "n1") != "", "the Lease has expired, noticed or not"
    wait_until(lambda: '"Lease lost"' in daemon.log(), "it notices")
    assert daemon.bind(stored, "n1") != "" and len(api.seen("POST", "/binding")) == 1
    assert all(state == "bound" for _, _, state in daemon.booked().values())


def test_a_process_that_was_stopped_past_its_lease_sends_nothing(api, follow):
    api.put(*gpu_node("n1", 1), pod("p", percent(100)))
    daemon = follow().wait_open()
    stored = daemon.pod("p")
    daemon.signal(signal.SIGSTOP)
    time.sleep(LEASE_SECONDS + 0.5)
    steal(api, "other")
    daemon.signal(signal.SIGCONT)
    assert daemon.bind(stored, "n1") != ""
    assert not api.seen("POST", "/binding")
    assert daemon.booked() == {}


# ---- rights and credentials ----

def test_missing_rights_are_named(api, follow):
    api.denied.update({("create", "pods/binding"), ("watch", "devices")})
    api.put(*gpu_node("n1"))
    daemon = follow()

    def named():
        state, text = daemon.readiness()
        return state == 503 and "rights are missing" in text and text
    text = wait_until(named, "readyz says what is missing")
    assert "create pods/binding" in text
    assert "watch devices.scheduling.koordinator.sh" in text
    assert "list nodes" not in text
    assert "create pods/binding" in daemon.log()
    check(api, daemon)


def run_with(kubeconfig, *flags):
    return subprocess.run([EXTENDER, "--port", "0", "--kubeconfig", str(kubeconfig), *flags],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)


def document(user=None, cluster=None, context="fake", **root):
    return {"apiVersion": "v1", "kind": "Config", "current-context": context,
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": cluster if cluster is not None else
                          {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "fake", "user": user or {}}], **root}


@pytest.mark.parametrize("made, says", [
    (document({"exec": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"}}),
     ["exec", "credential plugins are not supported", "tokenFile"]),
    (document({"auth-provider": {"name": "gcp"}}), ["auth-provider"]),
    (document({"username": "me", "password": "secret"}), ["basic authentication"]),
    (document({"as": "root"}), ["impersonation"]),
    (document({"client-certificate": "/nowhere.crt"}), ["client-key"]),
    (document({"tokenFile": "/nowhere/token"}), ["/nowhere/token"]),
    (document({"client-certificate-data": "%%%", "client-key-data": "AAAA"}),
     ["client-certificate-data"]),
    (document(cluster={"server": "https://127.0.0.1:1", "proxy-url": "http://proxy"}),
     ["proxy-url"]),
    (document(cluster={}), ["server"]),
    (document(cluster={"server": "ftp://host"}), ["server"]),
    (document(context="other"), ["other"]),
    (document(kind="Pod"), ["Config"]),
    ("{", ["not YAML"]),
    ("", ["empty"]),
], ids=["exec", "auth-provider", "password", "impersonation", "half-a-pair", "no-token-file",
        "no-base64", "proxy", "no-server", "ftp", "context", "kind", "no-yaml", "empty"])
def test_a_kubeconfig_that_cannot_be_used(tmp_path, made, says):
    path = tmp_path / "kubeconfig"
    path.write_text(made if isinstance(made, str) else json.dumps(made))
    done = run_with(path)
    assert done.returncode in (1, 2) and "Listening" not in done.stdout + done.stderr
    told = done.stdout + done.stderr
    for words in says:
        assert words in told, told
    assert "secret" not in told
    assert str(path) in told or "/nowhere" in told


def test_no_kubeconfig_and_no_pod(tmp_path):
    done = run_with(tmp_path / "none")
    assert done.returncode in (1, 2) and str(tmp_path / "none") in done.stderr
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([EXTENDER, "--port", "0"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, check=False, env=environment)
    assert done.returncode in (1, 2)
    assert "--kubeconfig" in done.stderr and "--embedded-manifests" in done.stderr


def test_election_can_be_switched_off(api, follow):
    """Then T and D are waited for at each start, since nothing tells of a predecessor."""
    api.put(*gpu_node("n1"), pod("p", percent(50)))
    daemon = follow(TIMES.replace("leaderElection:\n", "leaderElection:\n  enabled: false\n"))
    daemon.wait_open()
    assert bind_after(daemon)[0] >= 1000 * (BIND_SECONDS + DELIVERY_SECONDS)
    assert not api.seen("PUT", LEASES)
    assert daemon.schedule("p", ["n1"]) == "n1"
    check(api, daemon)
