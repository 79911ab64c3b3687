# SPDX-License-Identifier: Apache-2.0
"""Judges a cluster from what the API server holds, and from nothing else.

Reads Devices and Pods, and works out again from each pod's request which cards and amounts its
annotation must name. Shares no code with the daemon, and arithmetic is exact.
"""
import collections
import fractions
import json
import math
import re

from . import objects
from .objects import (ALLOCATED, CORE, FPGA, GPU, HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE, MEMORY,
                      NVIDIA, RATIO, RDMA, REGISTER, SHARED, VISIBLE)

_VENDORS = (NVIDIA, "amd.com/gpu", "dcu.com/gpu")
_HAMI = (HAMI_MEMORY, HAMI_PERCENTAGE, HAMI_CORES)
_NAMES = (*_VENDORS, *_HAMI, GPU, SHARED, CORE, MEMORY, RATIO, RDMA, FPGA)
_SUFFIXES = {"": 1, "n": fractions.Fraction(1, 10**9), "u": fractions.Fraction(1, 10**6),
             "m": fractions.Fraction(1, 1000), "k": 10**3,
             **{letter: 10**(3 * power) for power, letter in enumerate("MGTPE", 2)},
             **{letter + "i": 2**(10 * power) for power, letter in enumerate("KMGTPE", 1)}}

Card = collections.namedtuple("Card", "node type minor")


def quantity(text):
    """A Kubernetes quantity as an integer, rounded up as Kubernetes does."""
    match = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([a-zA-Z]*))", str(text))
    number, exponent, suffix = match.groups()
    scale = fractions.Fraction(10)**int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return math.ceil(fractions.Fraction(number) * scale)


def _container_requests(container):
    listed = container.get("resources", {}).get("requests", {})
    return collections.Counter({name: quantity(listed[name]) for name in _NAMES if name in listed})


def device_request(pod):
    """What the pod as a whole requests of devices, as kube-scheduler adds it up."""
    running, peak = collections.Counter(), collections.Counter()
    for container in pod["spec"].get("initContainers", []):
        amounts = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            running += amounts
            peak |= running
        else:
            peak |= running + amounts
    for container in pod["spec"]["containers"]:
        running += _container_requests(container)
    return dict(running | peak)


def _hami(request):
    """What HAMi's names ask of each card, of a pod with one container that does."""
    amounts = {CORE: min(100, request[HAMI_CORES])} if HAMI_CORES in request else {}
    if HAMI_MEMORY in request:
        return {**amounts, MEMORY: request[HAMI_MEMORY] << 20}
    return {**amounts, RATIO: min(100, request.get(HAMI_PERCENTAGE, 100))}


def expected(request):
    """{type: (cards, {resource: amount of each card})} of a valid request."""
    wanted = {}
    vendor = next((name for name in _VENDORS if name in request), None)
    if any(name in request for name in _HAMI):
        wanted["gpu"] = (request.get(NVIDIA, 1), _hami(request))
    elif vendor:
        wanted["gpu"] = (request[vendor], {CORE: 100, RATIO: 100})
    elif any(name in request for name in (GPU, CORE, MEMORY, RATIO)):
        amounts = {name: request[name] for name in (CORE, MEMORY, RATIO) if name in request}
        if GPU in request:
            amounts = {CORE: request[GPU], RATIO: request[GPU]}
        cards = request.get(SHARED) or max(1, amounts.get(RATIO, 0) // 100)
        wanted["gpu"] = (cards, {name: value // cards for name, value in amounts.items()})
    for kind, name in (("rdma", RDMA), ("fpga", FPGA)):
        if name in request:
            cards = max(1, request[name] // 100)
            wanted[kind] = (cards, {name: request[name] // cards})
    return wanted


def _complete(amounts, total):
    """The amounts with the memory dimension that was not asked for, from the card's own size."""
    amounts = dict(amounts)
    if MEMORY in amounts and RATIO not in amounts:
        amounts[RATIO] = amounts[MEMORY] * 100 // total[MEMORY]
    elif RATIO in amounts and MEMORY not in amounts:
        amounts[MEMORY] = amounts[RATIO] * total[MEMORY] // 100
    return amounts


def _inventory(devices, nodes):
    cards = {}
    for node in nodes:
        registered = node["metadata"].get("annotations", {}).get(REGISTER, "[]")
        for card in json.loads(registered):
            key = Card(node["metadata"]["name"], "gpu", card.get("index", 0))
            cards[key] = ({CORE: card["devcore"], RATIO: 100, MEMORY: card["devmem"] << 20},
                          card["id"])
    for device in devices:
        for card in device["spec"].get("devices", []):
            key = Card(device["metadata"]["name"], card["type"], card["minor"])
            cards[key] = ({name: quantity(value) for name, value in card["resources"].items()},
                          card.get("id"))
    return cards


def _allocation(pod):
    """[(type, minor, {resource: amount}, id)] of the pod's annotation; None if it has none."""
    text = pod["metadata"].get("annotations", {}).get(ALLOCATED)
    if text is None:
        return None
    return [(kind, entry["minor"],
             {name: quantity(value) for name, value in (entry["resources"] or {}).items()},
             entry.get("id"))
            for kind, entries in json.loads(text).items() for entry in entries]


class Verdict:
    """problems: sentences, none if all is well. used: {Card: {resource: sum}} of what runs.
    pods: how many bound device pods were looked at."""

    def __init__(self, devices, pods, nodes=()):
        self.problems, self.pods = [], 0
        self.used = collections.defaultdict(collections.Counter)
        self.tenants = collections.defaultdict(list)
        self.cards = _inventory(devices, nodes)
        for pod in pods:
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                self._judge_pod(pod)
        self._judge_cards()

    def _judge_pod(self, pod):
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        node = pod["spec"].get("nodeName")
        try:
            allocation = _allocation(pod)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self.problems.append(f"{name}: unreadable annotation: {error!r}")
            return
        wanted = expected(device_request(pod))
        if allocation is None:
            if node and wanted:
                self.problems.append(f"{name}: bound to {node} without cards")
            return
        if not node:
            self.problems.append(f"{name}: has cards but no node")
            return
        self.pods += 1
        for kind in wanted.keys() | {entry[0] for entry in allocation}:
            self._judge_type(name, node, kind, wanted.get(kind, (0, {})),
                             [entry for entry in allocation if entry[0] == kind])
        self._judge_visible(name, pod, allocation)

    def _judge_type(self, name, node, kind, wanted, entries):
        cards, amounts = wanted
        minors = [minor for _, minor, _, _ in entries]
        if len(entries) != cards or len(set(minors)) != len(minors):
            self.problems.append(f"{name}: asks for {cards} {kind}, has minors {minors}")
        for _, minor, resources, ident in entries:
            card = Card(node, kind, minor)
            if card not in self.cards:
                self.problems.append(f"{name}: has {card}, which does not exist")
                continue
            total, its_id = self.cards[card]
            if ident != its_id:
                self.problems.append(f"{name}: calls {card} {ident}, its id is {its_id}")
            if resources != _complete(amounts, total):
                self.problems.append(f"{name}: has {resources} of {card}, asked for "
                                     f"{_complete(amounts, total)}")
            self.used[card].update(resources)
            self.tenants[card].append((name, resources))

    def _judge_visible(self, name, pod, allocation):
        ids = [str(ident or minor) for kind, minor, _, ident in allocation if kind == "gpu"]
        visible = pod["metadata"]["annotations"].get(VISIBLE)
        if visible != (",".join(ids) if ids else None):
            self.problems.append(f"{name}: shows {visible} to its containers, has {ids}")

    def _judge_cards(self):
        for card, sums in self.used.items():
            total, _ = self.cards[card]
            names = sorted(name for name, _ in self.tenants[card])
            for name, value in sums.items():
                # The percentages of a card are at most 100, whatever its Device says.
                limit = total.get(name, 0) if name == MEMORY else min(total.get(name, 0), 100)
                if value > limit:
                    self.problems.append(f"{card}: {value} of {limit} {name} given to {names}")
            # A share so small that its ratio rounds to 0 is still a tenant.
            if len(names) > 1 and any(amounts.get(RATIO, 0) >= 100
                                      for _, amounts in self.tenants[card]):
                self.problems.append(f"{card}: given as a whole and shared: {names}")


def judge(api):
    """The verdict on what the API server holds now."""
    return Verdict(api.list(objects.DEVICES), api.list("/api/v1/pods"), api.list("/api/v1/nodes"))


def check(api, pods=None):
    """Fail with every problem; with `pods`, also if not exactly so many device pods are bound."""
    verdict = judge(api)
    assert not verdict.problems, "\n".join(verdict.problems)
    assert pods is None or verdict.pods == pods, f"{verdict.pods} device pods are bound, not {pods}"
    return verdict
