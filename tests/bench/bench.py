# SPDX-License-Identifier: Apache-2.0
"""Measure the daemon against its targets and print one table: see docs/benchmarks.md.

    bench.py [--smoke] [--only PART...] [--record]
    bench.py --only scheduler [--nodes N...] [--pods N] [--runs N]

PARTs: inside (linked with the archives), outside (the daemon over sockets, beside a bare server), and
scheduler (a real kube-scheduler; not among the standard ones, because it takes long). Exit status 1 if
a target is not met or an answer is wrong."""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = (ROOT / os.environ.get("DEVICESHARE_BUILD", "build")).resolve()
OBJECTS = HERE / "objects"
sys.path.insert(0, str(HERE.parent / "integration"))

# pylint: disable=wrong-import-position
from support import Daemon, wait_until

MIB = 1 << 20
# The pods that filter is asked about, as resources that the object file's are replaced by.
PLAIN = '"koordinator.sh/gpu-core":"10","koordinator.sh/gpu-memory-ratio":"10"'
WHOLE = '"nvidia.com/gpu":"1"'
CONFIG = """policy:
  node: binpack
  maxCandidates: {most}
leaderElection:
  enabled: false
log:
  verbosity: 2
"""


@dataclasses.dataclass
class Scale:
    """How much is measured."""
    nodes: int = 5000
    pods: int = 50000
    rounds: int = 9
    calls: int = 40
    tail_calls: int = 8000
    events: int = 1_000_000
    growth: tuple = (100, 1000, 5000, 20000)
    cluster_nodes: tuple = (100, 1000, 5000)
    burst: int = 300
    bursts: int = 3
    smoke: bool = False


SMOKE = Scale(nodes=200, pods=2000, rounds=2, calls=3, tail_calls=40, events=5000, growth=(100, 200),
              smoke=True)


def say(text):
    print(text, file=sys.stderr, flush=True)


def load():
    return os.getloadavg()[0]


# ---- the table ----

@dataclasses.dataclass
class Row:
    """A line of the table; `met` None: printed only."""
    measure: str
    target: str
    value: str
    met: bool = None

    def cells(self):
        return [self.measure, self.target, self.value,
                "" if self.met is None else "met" if self.met else "**not met**"]


def spread(values, form="{:.0f}"):
    """Median, and the extremes in brackets."""
    values = list(values)
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({form.format(min(values))}-{form.format(max(values))})"


def limit(measure, values, most, unit="", form="{:.0f}", least=False):
    """A row whose median may be `most` at most (or at least)."""
    middle = statistics.median(values)
    sign = ">=" if least else "<="
    return Row(measure, f"{sign} {most:g}{unit}", spread(values, form) + unit,
               middle >= most if least else middle <= most)


def ratio_row(measure, ours, theirs, most, note=""):
    """Medians of two runs taken in turns, round by round."""
    ratios = [a / b for a, b in zip(ours, theirs)]
    return Row(measure, f"<= {most:g}x the echo",
               f"{spread(ratios, '{:.2f}')}x: {spread(ours)} / {spread(theirs)} us{note}",
               statistics.median(ratios) <= most)


def table(rows):
    lines = ["| measure | target | measured: median (extremes) | |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    return "\n".join(lines)


def record(text):
    """Put the results into docs/benchmarks.md."""
    begin, end = "<!-- results: begin -->\n", "<!-- results: end -->"
    page = ROOT / "docs" / "benchmarks.md"
    before, _, rest = page.read_text().partition(begin)
    page.write_text(before + begin + text + end + rest.partition(end)[2])


# ---- programs ----

def samples_of(text):
    found = {}
    for line in text.splitlines():
        name, _, value = line.rpartition("\t")
        found.setdefault(name, []).append(float(value))
    return found


def run_samples(arguments, errors):
    """Run a program that prints samples."""
    with open(errors, "ab") as log:
        done = subprocess.run([str(argument) for argument in arguments], stdout=subprocess.PIPE,
                              stderr=log, check=False)
    if done.returncode:
        sys.exit(f"{arguments[0]}: exit status {done.returncode}:\n" +
                 pathlib.Path(errors).read_text(errors="replace")[-2000:])
    return samples_of(done.stdout.decode())


def inside(directory, name, nodes, pods, rounds, calls, build=BUILD):
    say(f"  inside: {name}, {nodes} nodes, {pods} pods")
    return run_samples([build / "tests/bench/inside", OBJECTS, name, nodes, pods, rounds, calls],
                       directory / "inside.log")


# ---- from inside ----

def scan_rows(directory, scale):
    found = inside(directory, "scan", scale.nodes, scale.pods, scale.rounds, scale.calls)
    for name, values in sorted(found.items()):
        yield limit(f"scan of {scale.nodes:,} x 8 cards, {name.partition(', ')[2]}",
                    [value / 1000 for value in values], 50, " us", "{:.1f}")


def bind_rows(directory, scale):
    found = inside(directory, "bind", scale.nodes, scale.pods, 1, scale.calls * 25)
    for name, values in sorted(found.items()):
        yield limit(f"bind: CPU {name.partition(', ')[2]}", [value / 1000 for value in values], 30,
                    " us", "{:.1f}")


def event_rows(directory, scale):
    found = inside(directory, "events", scale.nodes, scale.pods, scale.rounds, 1)
    for name, values in sorted(found.items()):
        yield limit(f"pod events of 8 KB from bytes, {name.partition(', ')[2]}",
                    [1e9 / value for value in values], 100_000, "/s", least=True)


def cycle_rows(directory, scale):
    rounds = 4
    found = inside(directory, "cycles", scale.nodes, scale.pods, rounds, scale.events // rounds)
    before, after = found["cycles KiB, before"][0], found["cycles KiB, after"][-1]
    yield Row(f"memory after {scale.events:,} pods came and went", "flat",
              f"{before / 1024:.1f} -> {after / 1024:.1f} MiB", after <= before * 1.02 + 512)


def growth_rows(directory, scale):
    """Filter without HTTP, by candidates and by pods in the cluster."""
    each = {}
    for nodes in scale.growth:
        for full in (False, True):
            pods = min(scale.pods, nodes * 8 * 8) if full else 0 # no card has more than eight
            found = inside(directory, "verbs", nodes, pods, scale.rounds,
                           max(2, scale.calls * 1000 // nodes))
            for name, values in found.items():
                each[name, nodes, full] = [value / 1000 for value in values]
    for name in ("filter ns, all", "filter ns, best 100"):
        text = ", ".join(f"{nodes:,}: {spread(each[name, nodes, True])}" for nodes in scale.growth)
        per_name = [statistics.median(each[name, nodes, True]) / nodes for nodes in scale.growth]
        yield Row(f"{name.replace(' ns', ' without HTTP')}, us by nodes", "linear: <= 1.5x a name "
                  f"from {scale.growth[1]:,} to {scale.growth[-1]:,}",
                  f"{text}; {per_name[-1] / per_name[1]:.2f}x", per_name[-1] <= per_name[1] * 1.5)
    for name in ("filter ns, first of its kind", "filter ns, packs"):
        text = ", ".join(f"{nodes:,}: {spread(each[name, nodes, True])}" for nodes in scale.growth)
        yield Row(f"{name.replace(' ns', ' without HTTP')}, best 100, us by nodes", "", text)
    flat = [statistics.median(each["filter ns, all", nodes, True]) /
            statistics.median(each["filter ns, all", nodes, False]) for nodes in scale.growth]
    yield Row(f"the same with up to {scale.pods:,} pods against none", "flat: <= 1.2x",
              ", ".join(f"{nodes:,}: {ratio:.2f}x" for nodes, ratio in zip(scale.growth, flat)),
              max(flat[1:]) <= 1.2)


FILTERS = ("cache_rank", "cache_rank_plain", "cache_scan", "cache_score", "cache_repeated",
           "inquire_locked")
SHORT = ("cache_pod_set", "cache_pod_same", "cache_pod_remove", "cache_pod_find",
         "cache_prepare_cards", "cache_node_set", "cache_node_remove", "cache_devices_set",
         "cache_devices_remove", "cache_book", "cache_confirm", "cache_forget",
         "cache_outcome_unknown", "cache_passed", "cache_await", "cache_removals")


def lock_rows(directory, scale):
    """The build with LOCKTIME=1 says how long the lock of the state is held."""
    found = inside(directory, "locks", scale.nodes, scale.pods, 2, scale.calls * 5,
                   ROOT / "build" / "locktime")
    names = sorted({name.split()[1] for name in found})
    for title, chosen, most in (("filter and prioritize", FILTERS, 150), ("event and bind", SHORT, 20),
                                ("others", None, 100)):
        members = [name for name in names if name != "cache_check" and (
            name in chosen if chosen else name not in FILTERS + SHORT)]
        worst = {name: found[f"lock {name} p99.9 ns"][0] / 1000 for name in members}
        usual = {name: found[f"lock {name} p50 ns"][0] / 1000 for name in members}
        longest = {name: found[f"lock {name} max ns"][0] / 1000 for name in members}
        name = max(worst, key=worst.get)
        peak = max(longest, key=longest.get)
        yield Row(f"CPU under the lock, {title}", f"p99.9 <= {most} us",
                  f"{worst[name]:.1f} us ({name}, its median {usual[name]:.1f}); longest "
                  f"{longest[peak]:.0f} us ({peak})",
                  worst[name] <= most)


def inside_rows(directory, scale):
    for rows in (scan_rows, bind_rows, event_rows, lock_rows, growth_rows, cycle_rows):
        yield from rows(directory, scale)


# ---- from outside ----

class Feeder:
    """feeder.py and its kubeconfig."""

    def __init__(self, directory, scale, pending):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "feeder.py", directory, str(scale.nodes), str(scale.pods),
             *map(str, pending)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.kubeconfig = self.process.stdout.readline().strip()

    def begin(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def result(self):
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


class Echo:
    """The bare server."""

    def __init__(self):
        self.process = subprocess.Popen([BUILD / "tests/bench/echo"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def target(self, length, body):
        return f"echo:{self.process.pid}:{self.port}:/{length}:{body}"

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


class Follower(Daemon):
    """The daemon, following the feeder."""

    def __init__(self, directory, kubeconfig):
        super().__init__(directory, (), CONFIG.format(most=0))
        self.flags = ["--config", str(self.config_path), "--port", "0", "--kubeconfig", kubeconfig]

    def cpu_s(self):
        return time.clock_gettime((~self.process.pid) << 3 | 2)

    def memory_kib(self, field):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+) kB", status)[1])

    def keep_best(self, most):
        """Reload with this maxCandidates."""
        reloads = self.log().count("Configuration reloaded")
        self.write_config(CONFIG.format(most=most))
        self.signal(1)
        wait_until(lambda: self.log().count("Configuration reloaded") > reloads, "it has reloaded")

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def lists(self):
        return len(re.findall('"List complete".*objects="pods"', self.log()))

    def target(self, path, body):
        return f"daemon:{self.process.pid}:{self.port}:{path}:{body}"


def pending_pod(number, limits):
    text = (OBJECTS / "pod-pending.json").read_text().strip()
    return text.replace("~P", f"{number:07}").replace("~V", "1000").replace(PLAIN, limits)


def check_filter(answer, names, kind):
    """Is the answer right?"""
    if kind == "none":
        assert not answer["NodeNames"], "a node was named"
        assert answer["FailedNodes"] == dict.fromkeys(names, "Insufficient gpu devices"), "reasons"
    elif kind == "all":
        assert answer["NodeNames"] == names, "not all names came back"
        assert not answer["FailedNodes"], "a node failed"
    else:
        assert len(answer["NodeNames"]) == min(100, len(names)), "not the best 100"
        assert set(answer["NodeNames"]) <= set(names), "an unknown name"


def check_priorities(answer, names):
    assert [entry["Host"] for entry in answer] == names, "names of prioritize"
    assert all(0 <= entry["Score"] <= 10 for entry in answer), "scores of prioritize"


class Outside:
    """Daemon, bare server and feeder on one machine."""

    def __init__(self, directory, scale):
        self.directory, self.scale = directory, scale
        self.names = [f"gpu-pool-a-node-{number:05}" for number in range(scale.nodes)]
        self.pods = {"plain": pending_pod(9_000_000, PLAIN), "whole": pending_pod(9_000_001, WHOLE)}
        paths = []
        for name, text in self.pods.items():
            paths.append(directory / f"{name}.json")
            paths[-1].write_text(text)
        self.feeder, self.echo = Feeder(directory, scale, paths), Echo()
        (directory / "daemon").mkdir()
        self.daemon = Follower(directory / "daemon", self.feeder.kubeconfig)

    def stop(self):
        self.daemon.stop()
        self.echo.stop()
        self.feeder.stop()

    def body(self, name, pod, names):
        path = self.directory / f"{name}.body"
        path.write_text(f'{{"Pod":{self.pods[pod]},"Nodes":null,"NodeNames":{json.dumps(names)}}}'
                        .replace('", "', '","'))
        return path

    # -- start, memory

    def drain(self):
        return run_samples([BUILD / "tests/bench/inside", OBJECTS, "drain", self.feeder.kubeconfig, 1],
                           self.directory / "drain.log")

    def start_rows(self):
        scale = self.scale
        say(f"  outside: start with {scale.nodes} nodes, {scale.pods} pods")
        received = self.drain()
        receiving = sum(received[f"drain s, {name}"][0] for name in ("nodes", "devices", "pods"))
        body = self.body("start", "plain", self.names).read_bytes()
        begun = time.monotonic()
        self.daemon.start()
        answer = {"Error": "not yet"}
        while answer["Error"] and time.monotonic() < begun + 120:
            answer = self.daemon.post("/filter", body)
            if answer["Error"]:
                time.sleep(0.005)
        first = time.monotonic() - begun
        check_filter(answer, self.names, "all")
        self.check_state()
        yield Row("start to the first filter answered", "<= receiving the lists + 1 s",
                  f"{first:.2f} s, receiving {receiving:.2f} s", first <= receiving + 1)
        rss, peak = (self.daemon.memory_kib(field) / 1024 for field in ("VmRSS", "VmHWM"))
        yield Row(f"RSS with {scale.nodes:,} nodes, {scale.nodes * 8:,} cards, {scale.pods:,} pods",
                  "<= 64 MiB", f"{rss:.1f} MiB, peak {peak:.1f}", rss <= 64)

    def check_state(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.daemon.port}/debug/cache?limit=1",
                                    timeout=60) as answer:
            counts = json.load(answer)["counts"]
        assert counts["nodes"] == self.scale.nodes, counts
        assert counts["bound"] == self.scale.pods, counts

    # -- processor time of calls

    def call(self, rounds, calls, path, body, length):
        return run_samples([BUILD / "tests/bench/caller", rounds, calls,
                            self.daemon.target(path, body), self.echo.target(length, body)],
                           self.directory / "caller.log")

    def ask(self, path, body):
        """The daemon's own answer, and its length."""
        found = subprocess.run(
            ["curl", "-sS", "--data-binary", f"@{body}", "-H", "Content-Type: application/json",
             f"http://127.0.0.1:{self.daemon.port}{path}"], stdout=subprocess.PIPE, check=True).stdout
        return json.loads(found), len(found)

    def verb_rows(self):
        scale, count = self.scale, f"{self.scale.nodes:,} names"
        for kind, pod, most, target in (("all", "plain", 0, 3), ("best 100", "plain", 100, 2),
                                        ("none", "whole", 0, 3)):
            say(f"  outside: filter, {kind}")
            self.daemon.keep_best(most)
            body = self.body(f"filter-{most}-{pod}", pod, self.names)
            answer, length = self.ask("/filter", body)
            check_filter(answer, self.names, kind)
            found = self.call(scale.rounds, scale.calls, "/filter", body, length)
            title = {"all": "all returned", "best 100": "best 100 returned", "none": "nothing fits"}
            yield ratio_row(f"filter, {count} x 8 cards, {title[kind]}, CPU per call",
                            found["daemon cpu us"], found["echo cpu us"], target)
            if kind == "best 100":
                yield limit(f"filter, {count}, best 100, CPU per call", found["daemon cpu us"], 300,
                            " us")
        for names, target in ((self.names, 3), (self.names[:100], 2)):
            say(f"  outside: prioritize of {len(names)}")
            body = self.body(f"prioritize-{len(names)}", "plain", names)
            answer, length = self.ask("/prioritize", body)
            check_priorities(answer, names)
            found = self.call(scale.rounds, scale.calls * (10 if len(names) <= 100 else 1),
                              "/prioritize", body, length)
            yield ratio_row(f"prioritize of {len(names):,} names, CPU per call",
                            found["daemon cpu us"], found["echo cpu us"], target)

    # -- under load

    def tail_rows(self):
        scale, rate = self.scale, 2000
        say(f"  outside: filter while {rate} pod events/s are applied")
        self.daemon.keep_best(100)
        body = self.body("tail", "plain", self.names)
        _, length = self.ask("/filter", body)
        calls = 20
        rounds = max(1, scale.tail_calls // calls)
        self.feeder.begin("events", rate, 1 if scale.smoke else scale.tail_calls / 600)
        time.sleep(0.2)
        found = self.call(rounds, calls, "/filter", body, length)
        sent = self.feeder.result()
        wait_until(lambda: self.settled(), "the last pods have gone")
        self.check_state()
        tails = [found[f"{who} p99.9 us"][0] / found[f"{who} p50 us"][0] for who in ("daemon", "echo")]
        yield Row(f"p99.9 / p50 of filter at {sent['sent'] / sent['seconds']:.0f} pod events/s",
                  "<= 1.5x that of the echo",
                  f"{tails[0] / tails[1]:.2f}x: " + " against ".join(
                      f"{found[f'{who} p99.9 us'][0]:.0f} / {found[f'{who} p50 us'][0]:.0f} us"
                      for who in ("daemon", "echo")), tails[0] / tails[1] <= 1.5)

    def settled(self):
        try:
            self.check_state()
            return True
        except AssertionError:
            return False

    # -- lists

    def relist_rows(self):
        ratios, walls = [], []
        for _ in range(1 if self.scale.smoke else 3):
            say(f"  outside: relist of {self.scale.pods} pods")
            received = self.drain()
            lists, begun, cpu = self.daemon.lists(), time.monotonic(), self.daemon.cpu_s()
            self.feeder.begin("relist")
            self.feeder.result()
            wait_until(lambda: self.daemon.lists() > lists, "the list is complete", 120)
            wall, cpu = time.monotonic() - begun, self.daemon.cpu_s() - cpu
            ratios.append(cpu / received["drain CPU s, pods"][0])
            walls.append(f"{wall:.2f} / {received['drain s, pods'][0]:.2f}")
        self.check_state()
        yield Row(f"relist of {self.scale.pods:,} pods of 8 KB, CPU", "<= 2x receiving alone",
                  f"{spread(ratios, '{:.2f}')}x; by the clock {', '.join(walls)} s",
                  statistics.median(ratios) <= 2)

    def rows(self):
        for rows in (self.start_rows, self.verb_rows, self.tail_rows, self.relist_rows):
            yield from rows()


def outside_rows(directory, scale):
    stage = Outside(directory, scale)
    try:
        yield from stage.rows()
    finally:
        stage.stop()


# ---- beside kube-scheduler ----

def scheduler_rows(directory, scale):
    import beside  # pylint: disable=import-outside-toplevel  # needs the parts of the e2e tests
    yield from beside.rows(directory, scale, Row)


# ---- the whole ----

def version_of(package):
    found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, check=False)
    return found.stdout.decode() or "?"


def describe():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    versions = ", ".join(f"{package} {version_of(package)}" for package in
                         ("gcc", "libmicrohttpd12", "libcurl4", "libc6"))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode().strip()
    return (f"{datetime.date.today()}, {os.cpu_count()} x {cpu[1] if cpu else platform.machine()}, "
            f"Linux {platform.release()}, {versions}, commit {commit or 'none'}, load before "
            f"{load():.1f}")


PARTS = {"inside": inside_rows, "outside": outside_rows, "scheduler": scheduler_rows}
STANDARD = ["inside", "outside"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="right answers only, small and quick")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=STANDARD)
    parser.add_argument("--record", action="store_true", help="write the table to docs/benchmarks.md")
    parser.add_argument("--nodes", type=int, nargs="+", help="of the part scheduler")
    parser.add_argument("--pods", type=int, default=300, help="in a burst of the part scheduler")
    parser.add_argument("--runs", type=int, default=3, help="bursts of each after one to warm up")
    arguments = parser.parse_args()
    scale = SMOKE if arguments.smoke else Scale()
    scale.cluster_nodes = arguments.nodes or scale.cluster_nodes
    scale.burst, scale.bursts = arguments.pods, arguments.runs
    told = describe()
    print(told + "\n", flush=True)
    rows, begun = [], time.monotonic()
    for part in arguments.only:
        with tempfile.TemporaryDirectory(prefix="bench") as name:
            for row in PARTS[part](pathlib.Path(name), scale):
                rows.append(row)
                say("    " + ("right: " + row.measure if scale.smoke else "  ".join(row.cells())))
    if arguments.smoke:
        print(f"{len(rows)} measures, every answer right ({time.monotonic() - begun:.0f} s)")
        return
    met, missed = (sum(row.met is value for row in rows) for value in (True, False))
    summary = (f"{met} met, {missed} not met, load after {load():.1f}, "
               f"{time.monotonic() - begun:.0f} s")
    print(f"{table(rows)}\n\n{summary}", flush=True)
    if arguments.record:
        record(f"{told}.\n\n{table(rows)}\n\n{summary[0].upper() + summary[1:]}.\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
