# SPDX-License-Identifier: Apache-2.0
"""Measure the daemon on a real control plane and print the tables of docs/figures.md.

    figures.py burst --nodes 100 1000 --pods 300     pods created at once, with and without us
    figures.py scale --nodes 1000 --pods 5000        memory, time from start to ready, filter calls
    figures.py placement --pods 3000                 do the pods of a burst see each other, what it costs
    figures.py candidates                            what maxCandidates leaves of a preference
    figures.py failover --runs 3                     until a successor may bind, with default times

etcd, kube-apiserver, kube-scheduler, the daemon and what makes the pods share this machine. Each
figure is the median of --runs runs with the extremes in brackets; the load is that at its start."""
import argparse
import concurrent.futures
import datetime
import http.client
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

# The stage of the end-to-end tests, found by the line above.
# pylint: disable=wrong-import-position
from stage import objects, scheduler
from stage.checker import check
from stage.cluster import Cluster
from stage.extender import Extender
from stage.parts import K8S_VERSION
from stage.placement import places, wish
from stage.plane import ControlPlane
from stage.process import wait_until

CARDS = 8
SHARE = {objects.CORE: 10, objects.MEMORY: "8000Mi"}
WRITERS = 8
# kube-scheduler's own limit of 50 calls/s would be all that is seen of it.
UNLIMITED = "clientConnection:\n  qps: 5000\n  burst: 10000\n"
WRITES = ("create", "update", "patch", "delete")
MIB = 1 << 20


def say(text):
    print(text, file=sys.stderr, flush=True)


def spread(values, form="{:.0f}"):
    """Median, and the extremes in brackets."""
    values = list(values)
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({form.format(min(values))}-{form.format(max(values))})"


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def print_table(heads, rows):
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print(flush=True)


# ---- the cluster ----

def big_node(number, advertise):
    """A Node and its Device as an agent and a kubelet make them: with 30 images and 16 labels."""
    name = f"node-{number:04}"
    labels = {f"example.com/label-{key:02}": f"value-{key:02}-of-{name}" for key in range(15)}
    cards = objects.gpus(CARDS)
    made = objects.node(name, labels, objects.advertised(*cards) if advertise else None)
    made["status"]["images"] = [
        {"names": [f"registry.example/team/image-{key}@sha256:{key:064x}",
                   f"registry.example/team/image-{key}:1.{key}.0"], "sizeBytes": 10**8 + key}
        for key in range(30)]
    return made, objects.device(name, *cards)


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(function, items))


def fill(cluster, nodes):
    def create(number):
        made, device = big_node(number, True)
        cluster.api("POST", objects.DEVICES, device)
        cluster.api("POST", "/api/v1/nodes", made)
    in_parallel(create, range(nodes))


def empty(cluster):
    """Delete the pods of the namespace, and wait until they are gone."""
    path = f"/api/v1/namespaces/{cluster.namespace}/pods"
    cluster.api("DELETE", path, {"gracePeriodSeconds": 0})
    cluster.wait(lambda: not cluster.pods(), "the pods are gone", 300)


class BoundTimes(threading.Thread):
    """Watches for pods that have a node, and notes when each was first seen."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.seen, self.ended, self.api = {}, False, cluster.api
        self.path = f"/api/v1/namespaces/{cluster.namespace}/pods"
        self.version = cluster.api.get(self.path, limit=1)["metadata"]["resourceVersion"]
        self.start()

    def run(self):
        # The API server ends a watch that does not keep up for a moment.
        while not self.ended:
            connection = http.client.HTTPSConnection("127.0.0.1", self.api.port, timeout=1,
                                                     context=self.api.context)
            try:
                connection.request("GET", f"{self.path}?watch=1&resourceVersion={self.version}"
                                          "&fieldSelector=spec.nodeName!=")
                self.follow(connection.getresponse())
            except (OSError, http.client.HTTPException):
                pass
            connection.close()

    def follow(self, answer):
        event = re.compile(rb'"metadata":\{"name":"([^"]+)".*?"resourceVersion":"(\d+)"')
        rest = b""
        while piece := answer.read1(1 << 20):
            *lines, rest = (rest + piece).split(b"\n")
            now = time.monotonic()
            for found in filter(None, map(event.search, lines)):
                self.seen.setdefault(found[1].decode(), now)
                self.version = found[2].decode()


# ---- a burst of pods ----

def burst(cluster, prefix, count, scheduler_name):
    """Create pods at once and wait until all are bound: (seconds in all, seconds of each, seconds
    that creating took)."""
    watch = BoundTimes(cluster)
    begun = {}

    def create(number):
        name = f"{prefix}-{number}"
        manifest = objects.pod(name, SHARE, schedulerName=scheduler_name)
        begun[name] = time.monotonic()
        cluster.create(manifest)
    in_parallel(create, range(count))
    created = time.monotonic()
    wait_until(lambda: len(watch.seen) == count, f"{count} pods are bound", 600)
    first = min(begun.values())
    watch.ended = True
    return (max(watch.seen.values()) - first, [watch.seen[name] - begun[name] for name in begun],
            created - first)


def cpu_ms(process):
    """User and system time of a process so far."""
    fields = pathlib.Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def plain_config(plane):
    return (scheduler.plain(plane.scheduler_kubeconfig())
            .replace("clientConnection:\n", UNLIMITED) + "percentageOfNodesToScore: 100\n")


def extended_config(plane, url):
    text = scheduler.shipped("advertised", plane.scheduler_kubeconfig(), url)
    return text.replace("clientConnection:\n", UNLIMITED)


def start_extender(plane, cluster, directory, name, config=""):
    kubeconfig = plane.certificate_kubeconfig("deviceshare", "system:masters", cluster.namespace)
    extender = Extender(directory, config=config, flags=["--kubeconfig", kubeconfig], name=name)
    plane.processes.append(extender)
    return extender


class Setting:
    """A kube-scheduler with or without us, and what a burst costs there."""

    def __init__(self, plane, cluster, directory, with_us, nodes):
        self.plane, self.cluster, self.with_us, self.nodes = plane, cluster, with_us, nodes
        self.name = "with the daemon" if with_us else "kube-scheduler alone"
        self.scheduler_name = "deviceshare" if with_us else "default-scheduler"
        self.extender = None
        if with_us:
            self.extender = start_extender(plane, cluster, directory, f"extender-{nodes}")
            self.extender.start().wait_open()
        config = extended_config(plane, self.extender.url) if with_us else plain_config(plane)
        self.scheduler = plane.scheduler(config, f"scheduler-{nodes}-{int(with_us)}")
        self.runs = []
        self.scheduler.pause()

    def run(self, number, count):
        """One burst, while every other setting's kube-scheduler stands still."""
        self.scheduler.resume()
        time.sleep(3)  # it catches up with what happened meanwhile
        load = os.getloadavg()[0]
        mark = self.plane.audit_mark()
        parts = [part for part in (self.scheduler, self.extender) if part]
        before = [cpu_ms(part) for part in parts]
        # The warm-up run has a name of its own, too.
        seconds, each, creating = burst(self.cluster, f"run{number}", count,
                                        self.scheduler_name)
        cpu = [(cpu_ms(part) - then) / count for part, then in zip(parts, before)]
        if self.with_us:
            check(self.cluster.api, pods=count)
        time.sleep(1)  # the audit log is written behind the answers
        ours = [entry for entry in self.plane.audit(mark, user="deviceshare")
                if entry.verb in WRITES and entry.resource != "leases"]
        self.runs.append({"seconds": seconds, "rate": count / seconds, "creating": creating,
                          "p50": percentile(each, 50), "p99": percentile(each, 99),
                          "writes": len(ours) / count, "cpu": cpu, "load": load})
        say(f"  {self.name}, {self.nodes} nodes: {count / seconds:.0f} pods/s, load {load:.1f}")
        empty(self.cluster)
        self.scheduler.pause()

    def end(self):
        for part in (self.scheduler, self.extender):
            if part:
                self.plane.end(part)

    def row(self):
        runs = self.runs[1:] if len(self.runs) > 1 else self.runs  # the first one warms up

        def column(key, form):
            return spread((run[key] for run in runs), form)
        ours = f"{statistics.median(run['writes'] for run in runs):.2f}" if self.with_us else "-"
        return [self.nodes, self.name, column("seconds", "{:.2f}"), column("rate", "{:.0f}"),
                column("p50", "{:.2f}"), column("p99", "{:.2f}"), ours,
                spread((run["cpu"][1] for run in runs), "{:.2f}") if self.with_us else "-",
                spread((run["cpu"][0] for run in runs), "{:.1f}"),
                column("creating", "{:.2f}"), column("load", "{:.1f}")]


def measure_burst(plane, directory, arguments):
    rows = []
    for nodes in arguments.nodes:
        cluster = set_up(plane, f"burst-{nodes}")
        fill(cluster, nodes)
        settings = [Setting(plane, cluster, directory, with_us, nodes) for with_us in (False, True)]
        for number in range(arguments.runs + 1):
            for setting in settings:  # in turns, so that both meet the same weather
                setting.run(f"{number}{'ab'[setting.with_us]}", arguments.pods)
        for setting in settings:
            setting.end()
            rows.append(setting.row())
        cluster.tear_down()
    print(f"Burst of {arguments.pods} pods, {arguments.runs} runs each after one to warm up:\n")
    print_table(["nodes", "", "all bound in s", "pods/s", "create to bound p50 s", "p99 s",
                 "writes of ours per pod", "CPU ms/pod daemon", "CPU ms/pod kube-scheduler",
                 "creating took s", "load"], rows)


# ---- memory, start, filter ----

def running_pod(number, nodes):
    """A pod that was bound earlier, each card shared by as many as the count asks for."""
    card = number // nodes % CARDS
    shares = {objects.CORE: "10", objects.MEMORY: "8000Mi", objects.RATIO: "9"}
    text = json.dumps({"gpu": [{"minor": card, "id": f"GPU-{card:08x}", "resources": shares}]})
    made = objects.pod(f"running-{number}", SHARE, nodeName=f"node-{number % nodes:04}")
    made["metadata"]["annotations"] = {objects.ALLOCATED: text, objects.VISIBLE: f"GPU-{card:08x}"}
    made["metadata"]["labels"] = {f"example.com/label-{key}": "value" for key in range(8)}
    return made


def memory_mib(process, field):
    status = pathlib.Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024 / MIB


def time_filter(extender, cluster, nodes, count=300):
    """Milliseconds of filter calls, one after the other, with all nodes as candidates."""
    stored = cluster.create_pod("asks", SHARE, schedulerName="nobody")
    body = json.dumps({"Pod": stored, "Nodes": None,
                       "NodeNames": [f"node-{number:04}" for number in range(nodes)]})
    wait_until(lambda: extender.cache()["counts"]["pods"], "the daemon knows the pod")
    connection = http.client.HTTPConnection("127.0.0.1", extender.port, timeout=60)
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        taken.append((time.perf_counter() - begun) * 1000)
        assert answer["NodeNames"], answer
    connection.close()
    cluster.delete_pod("asks")
    return taken


def measure_scale(plane, directory, arguments):
    rows = []
    for nodes in arguments.nodes:
        cluster = set_up(plane, f"scale-{nodes}")
        fill(cluster, nodes)
        in_parallel(cluster.create, [running_pod(number, nodes)
                                     for number in range(arguments.pods)])
        check(cluster.api, pods=arguments.pods)
        runs = [scale_run(plane, cluster, directory, nodes, arguments.pods, number)
                for number in range(arguments.runs)]
        rows.append([nodes, arguments.pods] + [spread(column, "{:.2f}" if index < 2 else "{:.1f}")
                                               for index, column in enumerate(zip(*runs))])
        cluster.tear_down()
    print(f"{CARDS} cards a node, {arguments.runs} starts:\n")
    print_table(["nodes", "pods bound", "start to ready s", "start to first binding s", "RSS MiB",
                 "peak RSS MiB", "RSS after 300 filters MiB", "filter p50 ms", "filter p99 ms",
                 "CPU ms/filter", "load"], rows)


def scale_run(plane, cluster, directory, nodes, pods, number):
    load = os.getloadavg()[0]
    extender = start_extender(plane, cluster, directory, f"scale-{nodes}-{number}")
    begun = time.monotonic()
    extender.start()
    ready = time.monotonic() - begun
    extender.wait_open()
    opened = time.monotonic() - begun
    counts = extender_counts(extender)
    assert (counts["nodes"], counts["bound"]) == (nodes, pods), counts
    rss, peak = memory_mib(extender, "VmRSS"), memory_mib(extender, "VmHWM")
    before = cpu_ms(extender)
    filters = time_filter(extender, cluster, nodes)
    cpu = (cpu_ms(extender) - before) / len(filters)
    after = memory_mib(extender, "VmRSS")
    plane.end(extender)
    say(f"  {nodes} nodes, {pods} pods: ready after {ready:.2f} s, {rss:.0f} MiB, load {load:.1f}")
    return (ready, opened, rss, peak, after, percentile(filters, 50), percentile(filters, 99), cpu,
            load)


def extender_counts(extender):
    return extender.cache()["counts"]


# ---- do the pods of a burst see each other? ----

PLACED_NODES, PLACED_CARDS = [100, 10], 8
# What filter does so that they do: docs/policies.md.
CARE = {"none": "inFlightWait: 0s\n  tentative: false", "waiting": "tentative: false",
        "waiting, tentative (default)": "tentative: true",
        "the same, 100ms": "inFlightWait: 100ms"}


AUDIT = re.compile(r'"Audit: bind" requestID=(\d+) .* node="(\w+)" cards="gpu:(\d+)" result="bound"')


def evenly(count, places):
    """How many each place gets, the most first; places without any are left out."""
    return [count // places + (number < count % places)
            for number in range(min(count, places))]


def share_of_a_card(node_policy, pods, nodes):
    """Percent of a card for a pod: what binpack is given fills most of the cards there are, and spread has room."""
    return max(1, 75 * nodes * PLACED_CARDS // pods // (1 if node_policy == "binpack" else 2))


def ideal(node_policy, pods, nodes, most):
    """The counts on all cards of each node that has some, when each decision knew all before it; a card takes
    `most` pods."""
    if node_policy == "spread":
        return [evenly(count, PLACED_CARDS) for count in evenly(pods, nodes)]
    full, rest = divmod(pods, most * PLACED_CARDS)
    part = [most] * (rest // most) + ([rest % most] if rest % most else [])
    return [[most] * PLACED_CARDS] * full + ([part] if part else [])


def unseeing(log, node_policy, nodes, most):
    """How many bound pods have a card that is not the one a decision would have chosen that knew all pods whose bind
    came before: what comes after a mistake mends the counts, so these are not seen at the end. Binds may come in
    another order than filters were asked, and end in another than they came."""
    have = {f"n{number}": [0] * PLACED_CARDS for number in range(nodes)}
    wrong = 0
    for _, node, card in sorted(AUDIT.findall(log), key=lambda found: int(found[0])):
        cards = have[node]
        if node_policy == "spread":
            right = sum(cards) == min(map(sum, have.values())) and cards[int(card)] == min(cards)
        else:
            room = [other for other in have.values() if min(other) < most]
            right = sum(cards) == max(map(sum, room)) and \
                cards[int(card)] == max(count for count in cards if count < most)
        wrong += not right
        cards[int(card)] += 1
    return wrong


def misplaced(found, wanted):
    """How many pods would have to move: pods above what the fullest, next fullest... may have."""
    found = sorted((sum(cards) for cards in found), reverse=True)
    wanted = sorted((sum(cards) for cards in wanted), reverse=True)
    wanted += [0] * (len(found) - len(wanted))
    return sum(max(0, have - want) for have, want in zip(found, wanted))


def bind_at_once(cluster, extender, asks, manifests):
    """Seconds until all are bound, and their places. All are there before the first is looked at: kube-scheduler
    goes from one to the next without a pause."""
    pods = len(manifests)
    asks.pause()
    in_parallel(cluster.create, manifests)
    asks.resume()
    begun = time.monotonic()
    wait_until(lambda: extender_counts(extender)["bound"] == pods, f"{pods} pods are bound", 900, 0.2)
    took = time.monotonic() - begun
    check(cluster.api, pods=pods)
    return took, places(cluster.api)


def placed_nodes(cluster, nodes):
    in_parallel(lambda number: cluster.create_gpu_node(f"n{number}", objects.gpus(PLACED_CARDS), True),
                range(nodes))


def placement_run(plane, cluster, directory, nodes, policy, care, pods):
    load, share = os.getloadavg()[0], share_of_a_card(policy, pods, nodes)
    name = f"placement-{nodes}-{policy}-{list(CARE).index(care)}"
    extender = start_extender(plane, cluster, directory, name,
                              config=f"policy:\n  {CARE[care]}\n").start().wait_open()
    asks = plane.scheduler(extended_config(plane, extender.url), name + "-scheduler")
    manifests = [wish(objects.pod(f"pod-{number}", objects.percent(share), schedulerName="deviceshare"), policy, policy)
                 for number in range(pods)]
    took, found = bind_at_once(cluster, extender, asks, manifests)
    found, wanted = list(found.values()), ideal(policy, pods, nodes, 100 // share)
    blind = unseeing(extender.log(), policy, nodes, 100 // share)
    refused = extender.sample("scheduler_deviceshare_allocations_total", result="refused")
    waits = [extender.sample("deviceshare_filter_waits_total", result=result)
             for result in ("arrived", "timeout", "unknown")]
    for part in (asks, extender):
        plane.end(part)
    empty(cluster)
    exact = sorted(found, reverse=True) == sorted(wanted, reverse=True)
    say(f"  {nodes} nodes, {policy}, {care}: exact {exact}, {blind} blind, {refused:.0f} refused, {pods / took:.0f} pods/s")
    return [nodes, policy, care, "yes" if exact else "no", misplaced(found, wanted), blind,
            f"{1000 * refused / pods:.2f}", f"{pods / took:.0f}",
            " / ".join(f"{wait:.0f}" for wait in waits), f"{load:.1f}"]


def measure_placement(plane, directory, arguments):
    rows = []
    for nodes in arguments.nodes:
        cluster = set_up(plane, f"placement-{nodes}")
        placed_nodes(cluster, nodes)
        rows += [placement_run(plane, cluster, directory, nodes, policy, care, arguments.pods)
                 for policy in ("spread", "binpack") for care in CARE]
        cluster.tear_down()
    print(f"{arguments.pods} waiting pods on nodes of {PLACED_CARDS} cards, required:\n")
    print_table(["nodes", "policy", "care", "exact at the end", "pods on a wrong node", "blind decisions",
                 "binds refused of 1,000 pods", "pods/s", "waits: arrived / timed out / pod unknown",
                 "load"], rows)
    late = [row for row in rows if row[2] != list(CARE)[0] and float(row[6]) >= 1]
    if late:
        sys.exit(f"one bind in a thousand or more was refused: {late}")


# ---- what is left of a policy when kube-scheduler chooses ----

BOUNDS = [1, 16, 100, 0]


def candidates_run(plane, cluster, directory, nodes, policy, bound, pods):
    """Pods of a quarter of a card, which prefer what they wish; as a burst."""
    name = f"candidates-{policy}-{bound}"
    extender = start_extender(plane, cluster, directory, name,
                              config=f"policy:\n  maxCandidates: {bound}\n").start().wait_open()
    asks = plane.scheduler(extended_config(plane, extender.url), name + "-scheduler")
    manifests = [wish(objects.pod(f"pod-{number}", {**objects.percent(25), "cpu": "1"},
                                  schedulerName="deviceshare"), policy, "binpack", "prefer")
                 for number in range(pods)]
    took, found = bind_at_once(cluster, extender, asks, manifests)
    for part in (asks, extender):
        plane.end(part)
    empty(cluster)
    cards = sum(map(len, found.values()))
    say(f"  {policy}, maxCandidates {bound}: {len(found)} nodes, {cards} cards, {pods / took:.0f} pods/s")
    return [policy, bound or "0 (all)", len(found), nodes - len(found), cards,
            f"{pods / took:.0f}"]


def measure_candidates(plane, directory, arguments):
    for nodes in arguments.nodes:
        cluster = set_up(plane, f"candidates-{nodes}")
        placed_nodes(cluster, nodes)
        rows = [candidates_run(plane, cluster, directory, nodes, policy, bound, arguments.pods)
                for policy in ("binpack", "pack", "spread") for bound in BOUNDS]
        cluster.tear_down()
        print(f"{arguments.pods} waiting pods of a quarter of a card on {nodes} nodes of {PLACED_CARDS} cards, "
              "preferred:\n")
        print_table(["node policy", "maxCandidates", "nodes used", "nodes free", "cards used", "pods/s"], rows)


# ---- who leads ends ----

def measure_failover(plane, directory, arguments):
    """The Lease's times are the defaults."""
    cluster = set_up(plane, "failover")
    fill(cluster, arguments.nodes[0])
    pair = [start_extender(plane, cluster, directory, f"replica-{number}") for number in range(2)]
    pair[0].start().wait_open()
    pair[1].start()
    columns = {"killed, another stands by": [], "stopped cleanly, another stands by": []}
    for _ in range(arguments.runs):
        for how, took in columns.items():
            leader, other = pair
            seen = other.openings()
            begun = time.monotonic()
            leader.crash() if how.startswith("killed") else leader.end()
            other.wait_open(seen)
            took.append(time.monotonic() - begun)
            say(f"  {how}: {took[-1]:.1f} s")
            leader.start()
            pair.reverse()
    alone = columns["killed and started again, alone"] = []
    plane.end(pair[1])
    for _ in range(arguments.runs):
        seen = pair[0].openings()
        begun = time.monotonic()
        pair[0].crash()
        pair[0].start().wait_open(seen)
        alone.append(time.monotonic() - begun)
        say(f"  killed and started again: {alone[-1]:.1f} s")
    plane.end(pair[0])
    cluster.tear_down()
    print(f"With the default times of the Lease, {arguments.runs} runs each:\n")
    print_table(["the leader is", "until the first binding may go out, s"],
                [[how, spread(took, "{:.1f}")] for how, took in columns.items()])


# ---- the whole ----

def set_up(plane, name):
    cluster = Cluster(plane, name)
    cluster.install_device_crd()
    return cluster.set_up()


def processor():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} x {found[1] if found else 'processor'}"


# What is measured, with nodes and pods.
PARTS = {"burst": (measure_burst, [100, 1000], 300), "scale": (measure_scale, [1000], 5000),
         "placement": (measure_placement, PLACED_NODES, 3000),
         "candidates": (measure_candidates, [100], 1000),
         "failover": (measure_failover, [10], 0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*PARTS, "all"])
    parser.add_argument("--nodes", type=int, nargs="+")
    parser.add_argument("--pods", type=int)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{datetime.date.today()}, {processor()}, Kubernetes {K8S_VERSION}:"
          f" figures.py {' '.join(sys.argv[1:])}\n")
    chosen = [arguments.what] if arguments.what != "all" else list(PARTS)
    with tempfile.TemporaryDirectory(prefix="figures") as name:
        directory = pathlib.Path(name)
        plane = ControlPlane(directory / "stage")
        try:
            plane.start()
            for what in chosen:
                measure, nodes, pods = PARTS[what]
                own = argparse.Namespace(nodes=arguments.nodes or nodes,
                                         pods=arguments.pods or pods, runs=arguments.runs)
                measure(plane, directory, own)
        finally:
            plane.stop()


if __name__ == "__main__":
    main()
