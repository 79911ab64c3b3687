# SPDX-License-Identifier: Apache-2.0
"""Long plays: the daemon is killed again and again, many fill a cluster at once, and everything changes for as long
as one likes. Here in a short form; `make prove` asks for more with the variables below. docs/proof.md has the results."""
import collections
import concurrent.futures
import os
import queue
import random
import re
import threading
import time

import pytest

from stage import scheduler
from stage.api import ApiError
from stage.caller import Caller
from stage.checker import check
from stage.extender import Extender
from stage.objects import MEMORY, gpu, gpus, percent, pod
from stage.parts import BUILD
from stage.process import wait_until
from stage.replica import allocated

SEED = int(os.environ.get("TEST_SEED") or random.randrange(10**6))
KILLS = int(os.environ.get("CHAOS_KILLS") or 10)
FILLS = int(os.environ.get("CHAOS_FILLS") or 2)
SOAK_S = int(os.environ.get("CHAOS_SOAK_S") or 20)

NODES = [f"n{number}" for number in range(4)]
STEPS = [None, "booked:KILL", "checked:KILL", "answered:KILL", "confirmed:KILL"]
# Alone, so that who comes after waits for T + D and not for a Lease.
ALONE = """bind:
  timeout: 500ms
  delivery: 200ms
leaderElection:
  enabled: false
"""


@pytest.fixture(autouse=True)
def seed():
    print(f"TEST_SEED={SEED}")
    random.seed(SEED)


def report(**figures):
    """For docs/proof.md: pytest -s shows it, and a file of `make prove` keeps it."""
    line = "figures: " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in figures.items())
    print(line)
    if os.environ.get("CHAOS_REPORT"):
        with open(os.environ["CHAOS_REPORT"], "a", encoding="utf-8") as file:
            file.write(line + "\n")


def believes_the_truth(daemon, cluster):
    """Its bookings are the API server's annotations."""
    def same():
        believed = {item["uid"]: node["name"] for node in daemon.cache()["nodes"]
                    for item in node["pods"]}
        return believed == {uid: place[0] for uid, place in allocated(cluster.pods()).items()}
    wait_until(same, "the daemon believes what the API server holds")


class Loop(threading.Thread):
    """Filter and bind, pod by pod, as one of several schedulers might; a pod that failed comes again."""

    def __init__(self, url, waiting, counts):
        super().__init__(daemon=True)
        self.caller, self.waiting, self.counts = Caller(url), waiting, counts
        self.ended = threading.Event()
        self.start()

    def run(self):
        while not self.ended.is_set():
            try:
                stored = self.waiting.get(timeout=0.05)
            except queue.Empty:
                continue
            if not self._place(stored):
                self.waiting.put(stored)
                self.ended.wait(0.02)
            self.waiting.task_done()

    def _place(self, stored):
        try:
            nodes = self.caller.filter(stored, *NODES)["NodeNames"] or []
            if not nodes:
                self.counts["nowhere"] += 1
                return False
            self.counts["binds"] += 1
            error = self.caller.bind(stored, random.choice(nodes))
        except (OSError, ValueError):
            self.counts["cut"] += 1
            return False
        self.counts["refused"] += error != ""
        return error == ""


def end(loops):
    for loop in loops:
        loop.ended.set()
    for loop in loops:
        loop.join(60)
        assert not loop.is_alive()


@pytest.fixture
def alone(plane, cluster, tmp_path):
    """The daemon that can be told where to kill itself, without election; the story starts it."""
    kubeconfig = plane.certificate_kubeconfig("deviceshare", "system:masters", cluster.namespace)
    made = Extender(tmp_path, config=ALONE, flags=["--kubeconfig", kubeconfig])
    made.argv[0] = str(BUILD / "tests" / "stoppable-extender")
    plane.processes.append(made)
    yield made
    plane.end(made)


def test_killed_again_and_again(cluster, alone):
    """At random moments and at each step of a bind, while four loops bind pods."""
    counts, waiting = collections.Counter(), queue.Queue()
    for name in NODES:
        cluster.create_gpu_node(name, gpus(8), False)
    loops = [Loop(alone.url, waiting, counts) for _ in range(4)]
    made = []
    for kill in range(KILLS):
        step = STEPS[kill % len(STEPS)]
        alone.env["DEVICESHARE_STOP_AT"] = step or ""
        alone.start()
        for number in range(3):
            name = f"p-{kill}-{number}"
            waiting.put(cluster.create_pod(name, percent(random.choice([10, 20, 40]))))
            made.append(name)
        if step is None:
            time.sleep(random.uniform(0, 1.5)) # the moment is the point
            alone.crash()
        else:
            alone.ended = True
            wait_until(lambda: not alone.alive(), f"it has killed itself at {step}")
        counts[step or "random"] += 1
        while len(made) > 60:
            cluster.delete_pod(made.pop(0))
        if kill % 25 == 24:
            check(cluster.api)
    alone.env["DEVICESHARE_STOP_AT"] = ""
    alone.start()
    gone = {item["metadata"]["name"] for item in cluster.pods()}
    def settled():
        return all(item["spec"].get("nodeName") for item in cluster.pods())
    cluster.wait(settled, "every pod that is left is bound")
    end(loops)
    assert {item["metadata"]["name"] for item in cluster.pods()} == gone == set(made)
    check(cluster.api, pods=len(made))
    believes_the_truth(alone, cluster)
    report(kills=KILLS, **{step or "random": counts[step or "random"] for step in STEPS},
           binds=counts["binds"], over_committed=0, leaked=0)


def test_many_fill_a_cluster(cluster, follow):
    """16 loops of filter and bind, 200 pods, 4 nodes of 8 cards."""
    daemon = follow().wait_open()
    total = collections.Counter()
    for name in NODES:
        cluster.create_gpu_node(name, gpus(8), False)
    for run in range(FILLS):
        counts, waiting = collections.Counter(), queue.Queue()
        sizes = [10] * 140 + [20] * 60
        random.shuffle(sizes)
        stored = cluster.create_many([pod(f"fill-{run}-{number}", percent(size))
                                      for number, size in enumerate(sizes)])
        for one in stored:
            waiting.put(one)
        loops = [Loop(daemon.url, waiting, counts) for _ in range(16)]
        cluster.wait_all_bound(200, seconds=180)
        end(loops)
        check(cluster.api, pods=200)
        believes_the_truth(daemon, cluster)
        total += counts
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: cluster.delete_pod(one["metadata"]["name"]), stored))
        believes_the_truth(daemon, cluster)
    report(fills=FILLS, binds=total["binds"], refused=total["refused"], over_committed=0)
    assert total["refused"] < 0.01 * total["binds"], total


class Vitals:
    """Memory and descriptors of a process."""

    def __init__(self, process):
        self.pid = process.popen.pid

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Churn:
    """One small thing after the other that happens to a cluster."""

    def __init__(self, cluster):
        self.cluster, self.number, self.counts = cluster, 0, collections.Counter()
        self.absent, self.sick = set(), set()

    def step(self):
        names = ["create"] * 6 + ["finish"] * 2 + ["delete"] * 3 + ["flap", "sicken", "edit"]
        name = random.choice(names)
        try:
            getattr(self, name)()
            self.counts[name] += 1
        except ApiError as error:
            if error.status not in (404, 409): # it went, or changed, meanwhile
                raise

    def _any(self):
        pods = self.cluster.pods()
        return random.choice(pods)["metadata"]["name"] if pods else None

    def create(self):
        if len(self.cluster.pods()) >= 120:
            self.delete()
        self.number += 1
        self.cluster.create_pod(f"s-{self.number}", random.choice(
            [percent(10), percent(50), percent(100), percent(200), {MEMORY: "10Gi"},
             {"nvidia.com/gpu": 1}]))

    def finish(self):
        name = self._any()
        if name and (self.cluster.pod(name) or {}).get("spec", {}).get("nodeName"):
            self.cluster.finish_pod(name, random.choice(["Succeeded", "Failed"]))

    def delete(self):
        name = self._any()
        if name:
            self.cluster.delete_pod(name)

    def flap(self):
        """A node goes, or one that went comes back."""
        name = random.choice(NODES)
        if name in self.absent:
            self.cluster.create_node(name)
        else:
            self.cluster.api.delete(f"/api/v1/nodes/{name}", 0)
        self.absent ^= {name}

    def sicken(self):
        """A card fails or recovers."""
        card = (random.choice(NODES), random.randrange(8))
        self.sick ^= {card}
        self._write(card[0])

    def edit(self):
        """A Device is written again as it is."""
        self._write(random.choice(NODES))

    def _write(self, name):
        self.cluster.update_device(name, *[gpu(minor, health=(name, minor) not in self.sick)
                                           for minor in range(8)])

    def heal(self):
        self.sick = set()
        for name in NODES:
            self._write(name)
        for name in sorted(self.absent):
            self.cluster.create_node(name)
        self.absent = set()


def test_soak(plane, cluster, follow, start_scheduler):
    """Churn with a real kube-scheduler; memory and descriptors do not grow, and nothing is given twice or lost."""
    daemon = follow()
    for name in NODES:
        cluster.create_gpu_node(name, gpus(8), False)
    start_scheduler(scheduler.shipped("not-advertised", plane.scheduler_kubeconfig(), daemon.url)
                    + "podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\n")
    churn, vitals = Churn(cluster), Vitals(daemon)
    begin = time.monotonic()
    samples, checks, next_look = [], 0, 0
    while time.monotonic() - begin < SOAK_S:
        churn.step()
        if time.monotonic() - begin >= next_look:
            check(cluster.api)
            checks += 1
            samples.append((vitals.rss_kib(), vitals.descriptors()))
            next_look += max(2, SOAK_S / 200)
        time.sleep(0.02)
    churn.heal()
    believes_the_truth(daemon, cluster)
    check(cluster.api)
    cluster.api("DELETE", f"/api/v1/namespaces/{cluster.namespace}/pods", {"gracePeriodSeconds": 0})
    cluster.wait(lambda: not cluster.pods(), "all pods are gone")
    believes_the_truth(daemon, cluster)
    assert all(amount == 0 for node in daemon.cache()["nodes"] for card in node["cards"]
               for amount in card["used"].values())
    third = len(samples) // 3
    early, late = samples[third:2 * third] or samples, samples[2 * third:]
    rss = [max(rss for rss, _ in part) for part in (early, late)]
    fds = [max(fds for _, fds in part) for part in (early, late)]
    report(seconds=SOAK_S, steps=sum(churn.counts.values()), checks=checks, over_committed=0, leaked=0,
           rss_kib_in_the_second_and_last_third=rss, descriptors=fds)
    assert fds[1] <= fds[0] + 16, samples
    # A sanitizer keeps what was freed; its own check of leaks runs at the end.
    assert os.environ.get("SAN") or rss[1] <= rss[0] * 1.1 + 1024, samples
