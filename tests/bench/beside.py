# SPDX-License-Identifier: Apache-2.0
"""Bursts of pods with a real kube-scheduler: without us, with an extender that echoes the names at
once, and with the daemon at several maxCandidates, in turns. Part of bench.py."""
import statistics
import subprocess

import figures
from figures import Setting, extended_config, fill, plain_config, say, set_up, start_extender
from stage import scheduler
from stage.parts import BUILD
from stage.plane import ControlPlane
from stage.process import wait_until

LEAST_ALL = {100: 80, 1000: 65, 5000: 65}   # percent of kube-scheduler alone, all names returned
LEAST_BEST = {1000: 95, 5000: 125}          # likewise, at the best maxCandidates
LEAST_OF_ECHO = 90
POLICY = "policy:\n  node: binpack\n  maxCandidates: {most}\n"


class Contender(Setting):
    """One kube-scheduler; `prepare` is called before each of its runs."""

    def __init__(self, plane, cluster, nodes, name, config, extender=None, prepare=None):
        # Not the parent's: who stands beside kube-scheduler is told. pylint: disable=super-init-not-called
        self.plane, self.cluster, self.nodes, self.name = plane, cluster, nodes, name
        self.extender, self.with_us = extender, extender is not None
        self.scheduler_name = "deviceshare" if "extenders:" in config else "default-scheduler"
        self.prepare = prepare or (lambda: None)
        slug = "".join(letter if letter.isalnum() else "-" for letter in name)
        self.scheduler = plane.scheduler(config, f"scheduler-{nodes}-{slug}")
        self.runs = []
        self.scheduler.pause()

    def run(self, number, count):
        self.prepare()
        super().run(number, count)

    def rate(self):
        """Pods a second in each run but the first, which warms up."""
        return [run["rate"] for run in self.runs[1:] or self.runs]


def keep_best(extender, most):
    """Reload with this maxCandidates."""
    def prepare():
        before = extender.log().count("Configuration reloaded")
        text = extender.config_path.read_text().partition("policy:")[0]
        extender.config_path.write_text(text + POLICY.format(most=most))
        extender.popen.send_signal(1)
        wait_until(lambda: extender.log().count("Configuration reloaded") > before, "it reloads")
    return prepare


def contenders(plane, cluster, directory, nodes, echo_port):
    alone = plain_config(plane)
    yield Contender(plane, cluster, nodes, "alone", alone)
    yield Contender(plane, cluster, nodes, "alone, default sampling",
                    alone.replace("percentageOfNodesToScore: 100\n", ""))
    echo = scheduler.without_bind(extended_config(plane, f"http://127.0.0.1:{echo_port}"))
    yield Contender(plane, cluster, nodes, "echo", echo)
    extender = start_extender(plane, cluster, directory, f"extender-{nodes}",
                              POLICY.format(most=0)).start()
    extender.wait_open()
    for most in (0, 100, 16, 1):
        name = f"with us, {most or 'all'}"
        yield Contender(plane, cluster, nodes, name, extended_config(plane, extender.url), extender,
                        keep_best(extender, most))


def measure(plane, directory, nodes, pods, runs):
    """Pods a second by contender."""
    cluster = set_up(plane, f"beside-{nodes}")
    echo = subprocess.Popen([BUILD / "tests/bench/echo"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    try:
        say(f"  scheduler: {nodes} nodes are made")
        fill(cluster, nodes)
        every = list(contenders(plane, cluster, directory, nodes, int(echo.stdout.readline())))
        for number in range(runs + 1):
            for place, contender in enumerate(every):
                contender.run(f"{number}{chr(ord('a') + place)}", pods)
        rates = {contender.name: contender.rate() for contender in every}
        for contender in every:
            plane.end(contender.scheduler)
        plane.end(every[-1].extender)
        cluster.tear_down()
        return rates
    finally:
        echo.stdin.close()
        echo.wait(10)


def rows(directory, scale, make_row):
    """Rows of the table; make_row(measure, target, value, met)."""
    plane = ControlPlane(directory / "stage")
    try:
        plane.start()
        for nodes in scale.cluster_nodes:
            rates = measure(plane, directory, nodes, scale.burst, scale.bursts)
            yield from judge(nodes, rates, make_row)
    finally:
        plane.stop()


def judge(nodes, rates, make_row):
    middle = {name: statistics.median(values) for name, values in rates.items()}
    of_alone = {name: 100 * value / middle["alone"] for name, value in middle.items()}
    ours = [name for name in rates if name.startswith("with us")]
    best = max(ours, key=middle.get)
    text = "; ".join(f"{name}: {figures.spread(values)}" for name, values in rates.items())
    yield make_row(f"pods/s, {nodes:,} nodes", "", text, None)
    every = "with us, all"
    yield make_row(f"with us against without, {nodes:,} nodes, all returned",
                   f">= {LEAST_ALL.get(nodes, 65)} %", f"{of_alone[every]:.0f} %",
                   of_alone[every] >= LEAST_ALL.get(nodes, 65))
    part = 100 * middle[every] / middle["echo"]
    yield make_row(f"with us against an echo of the names, {nodes:,} nodes",
                   f">= {LEAST_OF_ECHO} %", f"{part:.0f} %", part >= LEAST_OF_ECHO)
    if nodes in LEAST_BEST:
        yield make_row(f"best maxCandidates against without, {nodes:,} nodes",
                       f">= {LEAST_BEST[nodes]} %", f"{of_alone[best]:.0f} % ({best})",
                       of_alone[best] >= LEAST_BEST[nodes])
