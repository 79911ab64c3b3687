# SPDX-License-Identifier: Apache-2.0
"""A random cluster played against the daemon, judged from outside after every step.

The play is kube-scheduler, its users and its hardware at once: pods come, are scheduled, end or are
forged; cards shrink, fall ill and vanish; several clients bind the same pods to different nodes.
What may be is computed here from the objects, without the daemon's own arithmetic.

CHAOS_SEED picks the play, CHAOS_STEPS its length; a failure prints the seed and the last steps."""
import collections
import concurrent.futures
import http.client
import json
import os
import random
import signal
import threading
import time

from support import ALLOCATED, GIB, gpu, node, pod, wait_until

SEED = int(os.environ.get("CHAOS_SEED", "1"))
STEPS = int(os.environ.get("CHAOS_STEPS", "600"))
SECONDS = int(os.environ.get("CHAOS_SECONDS", "45"))  # on a slow machine the play is cut short

NODES = [f"n{i}" for i in range(5)]
CORE, RATIO, MEMORY = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio",
                       "koordinator.sh/gpu-memory")
RDMA = "koordinator.sh/rdma"
DIMENSIONS = {"gpu": (CORE, RATIO, MEMORY), "rdma": (RDMA,)}
OTHER_UID = "99999999-2222-3333-4444-555555555555"

# Annotations that somebody wrote by hand on a pod that he put on a node himself.
FORGED = [
    "", "{}", "null", "[]", "{", '"x"', "{\"gpu\":null}", "{\"gpu\":{}}", "{\"gpu\":[]}",
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"9223372036854775807"}}]}',
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"-50"}}]}',
    '{"gpu":[{"minor":2147483647,"resources":{"koordinator.sh/gpu-core":"50"}}]}',
    '{"gpu":[{"minor":2147483648,"resources":{"koordinator.sh/gpu-core":"50"}}]}',
    '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100000",'
    '"koordinator.sh/gpu-memory":"4Ti"}}]}',
    '{"gpu":[{"minor":0,"resources":{}},{"minor":0,"resources":{"koordinator.sh/gpu-core":"5"}}]}',
    '{"rdma":[{"minor":0,"resources":{"koordinator.sh/rdma":"100"}}],"fpga":[{"minor":3}]}',
    '{"gpu":[%s]}' % ",".join('{"minor":%d,"resources":{"koordinator.sh/gpu-core":"1"}}' % i
                              for i in range(64)),
    '{"gpu":[%s]}' % ",".join('{"minor":%d}' % i for i in range(65)),
    "[" * 5000,
    "x" * 200000,
]

JUNK = [
    b"\x00\x01\x02\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"PodName\":",
    b"GET /embedded/manifests HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
]


class Wish:
    """A device request: what the pod states, and what it comes to on each card of a kind."""

    def __init__(self, limits, **kinds):
        self.limits = limits
        self.kinds = kinds  # kind: (cards, amount on each by resource name)
        self.valid = kinds != {"none": None}

    def on_card(self, kind, total):
        """The amount on a card of this size, with the memory figure that was not stated."""
        amount = dict(self.kinds[kind][1])
        if MEMORY in amount and total.get(RATIO):
            amount[RATIO] = amount[MEMORY] * 100 // total[MEMORY] if total.get(MEMORY) else 0
        elif RATIO in amount and total.get(MEMORY):
            amount[MEMORY] = amount[RATIO] * total[MEMORY] // 100
        return amount

    def is_whole(self, kind):
        return self.kinds[kind][1].get(RATIO if kind == "gpu" else RDMA, 0) >= 100

    def fits_card(self, kind, card):
        """`card`: total, used, pods, as /debug/cache shows them."""
        total, used = card["total"], card["used"]
        if not card["usable"] or (self.is_whole(kind) and card["pods"] > 0):
            return False
        if any(not total.get(name) for name in self.kinds[kind][1]):
            return False
        return all(amount <= max(0, total.get(name, 0) - used.get(name, 0))
                   for name, amount in self.on_card(kind, total).items())

    def fits(self, shown):
        """`shown`: a node of /debug/cache, or None."""
        if not shown or not shown["hasNode"] or not shown["hasDevices"] or shown["closed"]:
            return False
        return all(sum(self.fits_card(kind, card) for card in shown["cards"]
                       if card["type"] == kind) >= count
                   for kind, (count, _) in self.kinds.items())


def random_wish(rng):
    core, ratio = rng.choice([1, 10, 25, 33, 50, 100]), rng.choice([1, 7, 25, 50, 100])
    memory = rng.choice([1, 1000, GIB, 7 * GIB + 1, 40 * GIB, 80 * GIB])
    cards = rng.randint(1, 3)
    wishes = [
        Wish({CORE: str(core), RATIO: str(ratio)}, gpu=(1, {CORE: core, RATIO: ratio})),
        Wish({CORE: str(core), MEMORY: str(memory)}, gpu=(1, {CORE: core, MEMORY: memory})),
        Wish({MEMORY: str(memory)}, gpu=(1, {MEMORY: memory})),
        Wish({"nvidia.com/gpu": str(cards)}, gpu=(cards, {CORE: 100, RATIO: 100})),
        Wish({"koordinator.sh/gpu.shared": str(cards), CORE: str(cards * core),
              RATIO: str(cards * ratio)}, gpu=(cards, {CORE: core, RATIO: ratio})),
        Wish({RDMA: str(core)}, rdma=(1, {RDMA: core})),
        Wish({RDMA: "200", "koordinator.sh/gpu": str(core)}, rdma=(2, {RDMA: 100}),
             gpu=(1, {CORE: core, RATIO: core})),
        Wish({"koordinator.sh/gpu": "150"}, none=None),
        Wish({"nvidia.com/gpu": "9223372036854775807"}, none=None),
        Wish({"nvidia.com/gpu": "92233720368547758"},
             gpu=(92233720368547758, {CORE: 100, RATIO: 100})),
    ]
    return rng.choices(wishes, weights=[6, 4, 3, 4, 3, 2, 2, 1, 1, 1])[0]


def a_device(name, entries):
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
            "metadata": {"name": name}, "spec": {"devices": entries}}


def whole_device(name):
    return a_device(name, [gpu(minor) for minor in range(3)] + [
        {"type": "rdma", "minor": minor, "health": True, "resources": {RDMA: "100"}}
        for minor in range(2)])


def random_device(rng, name):
    """Mostly as it was: three GPUs and two NICs; sometimes fewer, smaller, sick or nonsense."""
    entries = []
    for minor in range(rng.choice([3, 3, 3, 2, 0])):
        entries.append({"type": "gpu", "minor": minor, "id": f"GPU-{name}-{minor}",
                        "health": rng.random() < 0.9,
                        "resources": {CORE: "100", RATIO: "100",
                                      MEMORY: rng.choice(["80Gi", "80Gi", "40Gi", "1000"])}})
    for minor in range(rng.choice([2, 2, 1])):
        entries.append({"type": "rdma", "minor": minor, "id": f"mlx-{minor}", "health": True,
                        "resources": {RDMA: "100"}})
    rng.shuffle(entries)
    if rng.random() < 0.1:
        entries += [{"type": "gpu", "minor": -1}, {"type": "gpu", "minor": 9, "resources": {
            CORE: "-100"}}, {"type": "npu", "minor": 0}, dict(entries[0])]
    return a_device(name, entries)


class Play:
    def __init__(self, daemon):
        self.daemon = daemon
        self.rng = random.Random(SEED)
        self.steps = collections.deque(maxlen=12)
        self.wishes = {}  # by pod name
        self.forged = set()
        self.born = 0
        self.local = threading.local()
        self.shown = {}  # nodes of /debug/cache by name, after the last step
        self.pods = {}   # stored pods by name
        self.bound = 0

    # -- calls --

    def call(self, method, path, body=None):
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        for last in (False, True):
            try:
                if getattr(self.local, "connection", None) is None:
                    self.local.connection = http.client.HTTPConnection("127.0.0.1",
                                                                       self.daemon.port, timeout=60)
                self.local.connection.request(method, path, data)
                answer = self.local.connection.getresponse()
                return answer.status, json.loads(answer.read() or b"null")
            except (http.client.HTTPException, ConnectionError):
                self.local.connection = None
                assert not last, f"{method} {path} is not answered"

    def verb(self, name, body):
        status, answer = self.call("POST", f"/{name}", body)
        assert status == 200, (status, answer)
        return answer

    def apply(self, *objects):
        return self.call("POST", "/embedded/manifests",
                         {"apiVersion": "v1", "kind": "List", "items": objects})

    def apply_good(self, *objects):
        status, answer = self.apply(*objects)
        assert status == 200, answer

    def bind(self, stored, target, **changes):
        meta = stored["metadata"]
        return self.verb("bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"],
                                  "PodUID": meta["uid"], "Node": target, **changes})["Error"]

    # -- what is there --

    def look(self):
        items = self.call("GET", "/embedded/manifests?format=json")[1]["items"]
        self.pods = {item["metadata"]["name"]: item for item in items if item["kind"] == "Pod"}
        self.cache = self.call("GET", "/debug/cache")[1]
        self.shown = {shown["name"]: shown for shown in self.cache["nodes"]}

    def some_pod(self, pending=None):
        names = sorted(name for name, item in self.pods.items()
                       if pending in (None, not item["spec"].get("nodeName")))
        return self.rng.choice(names) if names else None

    def finished(self, name):
        return self.pods[name]["status"]["phase"] in ("Succeeded", "Failed")

    # -- the judge --

    def check(self):
        """The cache is what the objects say, and each sum is that of its parts."""
        assert self.daemon.alive(), self.daemon.log()[-3000:]
        self.look()
        holders = {}
        for shown in self.cache["nodes"]:
            for holder in shown["pods"]:
                assert holder["name"] not in holders, "on two nodes"
                holders[holder["name"]] = (shown["name"], holder)
            self.check_sums(shown)
        placed = {name for name, item in self.pods.items()
                  if item["spec"].get("nodeName") and not self.finished(name)}
        assert set(holders) == placed, "a booking leaked or is lost"
        for name, (where, holder) in holders.items():
            stored = self.pods[name]
            assert holder["uid"] == stored["metadata"]["uid"]
            assert holder["state"] == "bound" and where == stored["spec"]["nodeName"]
            if name not in self.forged:
                self.check_holder(stored, holder, self.shown[where])

    @staticmethod
    def check_sums(shown):
        sums = collections.defaultdict(collections.Counter)
        pods = collections.Counter()
        for holder in shown["pods"]:
            for share in holder["shares"]:
                sums[share["type"], share["minor"]].update(share["amount"])
                pods[share["type"], share["minor"]] += 1
        cards = {(card["type"], card["minor"]): card for card in shown["cards"]}
        assert set(pods) <= set(cards)
        for key, card in cards.items():
            assert card["used"] == {name: sum_ for name, sum_ in sums[key].items() if sum_}, card
            assert card["pods"] == pods[key], card

    def check_holder(self, stored, holder, shown):
        """A pod that we placed is charged what was written, or more if its card has grown."""
        wish = self.wishes[stored["metadata"]["name"]]
        cards = {(card["type"], card["minor"]): card for card in shown["cards"]}
        written = json.loads(stored["metadata"]["annotations"][ALLOCATED])
        flat = {(kind, entry["minor"]): entry["resources"]
                for kind, entries in written.items() for entry in entries}
        shares = {(share["type"], share["minor"]): share["amount"] for share in holder["shares"]}
        assert set(shares) == set(flat)
        assert collections.Counter(kind for kind, _ in flat) == {
            kind: count for kind, (count, _) in wish.kinds.items()}
        for key, amount in shares.items():
            least = {name: parse(text) for name, text in flat[key].items()}
            now = wish.on_card(key[0], cards[key]["total"])
            for name in DIMENSIONS[key[0]]:
                expected = max(least.get(name, 0), now.get(name, 0))
                assert least.get(name, 0) <= amount.get(name, 0) <= expected, (stored, holder)

    def check_room(self, before, quiet):
        """Nothing that we decided takes more than there is: on nodes whose cards and forgeries did
        not change, a card's use grew only within its total."""
        for name in quiet:
            old = {(card["type"], card["minor"]): card["used"] for card in
                   before.get(name, {"cards": []})["cards"]}
            for card in self.shown.get(name, {"cards": []})["cards"]:
                for resource, used in card["used"].items():
                    was = old.get((card["type"], card["minor"]), {}).get(resource, 0)
                    assert used <= max(was, card["total"].get(resource, 0)), (name, card)

    # -- steps; each returns the nodes on which only we decided --

    def new_pods(self):
        for _ in range(self.rng.randint(1, 4)):
            self.born += 1
            name = f"p{self.born}"
            self.wishes[name] = random_wish(self.rng)
            self.apply_good(pod(name, self.wishes[name].limits))
        return NODES

    def schedule(self):
        name = self.some_pod(pending=True)
        if name is None or self.finished(name):
            return NODES
        stored, wish = self.pods[name], self.wishes[name]
        body = {"Pod": stored, "NodeNames": NODES + ["nowhere", NODES[0]]}
        answer = self.verb("filter", body)
        assert answer["Error"] == ""
        expected = [node for node in NODES if wish.valid and wish.fits(self.shown.get(node))]
        assert answer["NodeNames"] == expected, (wish.limits, answer)
        failed = set(answer["FailedNodes"]) | set(answer["FailedAndUnresolvableNodes"])
        assert failed == (set() if expected else {*NODES, "nowhere"}), (wish.limits, answer)
        scores = self.verb("prioritize", {"Pod": stored, "NodeNames": NODES})
        assert [entry["Host"] for entry in scores] == NODES
        assert all(0 <= entry["Score"] <= 10 for entry in scores)
        target = self.rng.choice(expected if expected and self.rng.random() < 0.9 else NODES)
        error = self.bind(stored, target)
        assert (error == "") == (target in expected), (target, expected, error)
        self.bound += error == ""
        return NODES

    def bind_wrongly(self):
        name = self.some_pod()
        if name is None:
            return NODES
        stored = self.pods[name]
        wrong = self.rng.choice([
            {"PodUID": OTHER_UID}, {"PodName": "other"}, {"PodNamespace": "kube-system"},
            {"PodUID": None}, {"PodName": "../x"}, {"Node": ""}, {"Node": "nowhere"},
            {"PodUID": self.pods[self.some_pod()]["metadata"]["uid"], "PodName": "other"}])
        assert self.bind(stored, self.rng.choice(NODES), **wrong) != ""
        return NODES

    def bind_again(self):
        name = self.some_pod(pending=False)
        if name is None or self.finished(name):
            return NODES
        home = self.pods[name]["spec"]["nodeName"]
        target = self.rng.choice(NODES)
        error = self.bind(self.pods[name], target)
        assert (error == "") == (target == home), error
        return NODES

    def filter_forged(self):
        """A body that is not the stored pod changes nothing and is an error, but for its owner."""
        name = self.some_pod(pending=True)
        if name is None or self.finished(name) or not self.wishes[name].valid:
            return NODES
        forged = json.loads(json.dumps(self.pods[name]))
        self.rng.choice([
            lambda: forged["metadata"].update(name="other"),
            lambda: forged["spec"]["containers"].append(
                {"name": "more", "resources": {"requests": {CORE: "1", RATIO: "1"}}})])()
        assert self.verb("filter", {"Pod": forged, "NodeNames": NODES})["Error"] != ""
        return NODES

    def preempt(self):
        name = self.some_pod(pending=True)
        if name is None or self.finished(name):
            return NODES
        wish, victims, expected = self.wishes[name], {}, set()
        for target in NODES + ["nowhere"]:
            shown = self.shown.get(target, {"pods": [], "cards": []})
            chosen = [holder for holder in shown["pods"] if self.rng.random() < 0.5]
            uids = [holder["uid"] for holder in chosen] * self.rng.randint(1, 3) + [OTHER_UID]
            self.rng.shuffle(uids)
            victims[target] = {"Pods": [{"UID": uid} for uid in uids]}
            if wish.valid and wish.fits(without(self.shown.get(target), chosen)):
                expected.add(target)
        answer = self.verb("preempt", {"Pod": self.pods[name], "NodeNameToMetaVictims": victims})
        assert set(answer["NodeNameToMetaVictims"]) == expected, (wish.limits, victims, answer)
        return NODES

    def end_pods(self):
        for name in self.rng.sample(sorted(self.pods), len(self.pods) // 3):
            if self.rng.random() < 0.4:
                self.apply_good({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                                 "status": {"phase": "Succeeded"}})
            else:
                status, _ = self.call("DELETE", f"/embedded/pods/default/{name}")
                assert status == 200
        return NODES

    def edit_annotation(self):
        """Who may patch a pod frees no cards and takes none."""
        name = self.some_pod(pending=False)
        if name is None or name in self.forged or self.finished(name):
            return NODES
        true = self.pods[name]["metadata"]["annotations"][ALLOCATED]
        held = self.shown[self.pods[name]["spec"]["nodeName"]]["cards"]
        change = {"apiVersion": "v1", "kind": "Pod",
                  "metadata": {"name": name, "annotations": {ALLOCATED: self.rng.choice(FORGED)}}}
        self.apply_good(change)
        self.look()
        assert self.shown[self.pods[name]["spec"]["nodeName"]]["cards"] == held
        change["metadata"]["annotations"][ALLOCATED] = true
        self.apply_good(change)
        return NODES

    def apply_refused(self):
        """Of a text with one bad object nothing is taken."""
        stored = self.pods.get(self.some_pod())
        bad = [node("A b"), {"kind": "Pod"}, pod("x", metadata={"uid": "no uid"}),
               pod("x", metadata={"annotations": {"k": 1}})]
        if stored is not None:
            meta = stored["metadata"]
            bad += [pod(meta["name"], {RDMA: "3"}), pod(meta["name"], spec={"nodeName": "n77"}),
                    pod(meta["name"], self.wishes[meta["name"]].limits,
                        metadata={"uid": OTHER_UID}),
                    pod("twin", metadata={"uid": meta["uid"]})]
        status, answer = self.apply(node("never"), self.rng.choice(bad))
        assert status == 400 and answer["error"], answer
        self.look()
        assert "never" not in self.shown and "twin" not in self.pods
        return NODES

    def change_devices(self):
        target = self.rng.choice(NODES)
        if self.rng.random() < 0.15:
            self.call("DELETE", f"/embedded/devices/{target}")
        else:
            self.apply_good(random_device(self.rng, target))
        return [name for name in NODES if name != target]

    def change_node(self):
        target = self.rng.choice(NODES)
        if self.rng.random() < 0.3:
            self.call("DELETE", f"/embedded/nodes/{target}")
        else:
            self.apply_good(node(target))
        return NODES

    def forge(self):
        self.born += 1
        name, target = f"f{self.born}", self.rng.choice(NODES)
        self.wishes[name] = random_wish(self.rng)
        self.forged.add(name)
        self.apply_good(pod(name, self.wishes[name].limits, spec={"nodeName": target}, metadata={
            "annotations": {ALLOCATED: self.rng.choice(FORGED)}}))
        return [name for name in NODES if name != target]

    def heal(self):
        """The pods that somebody forged end, and every node is whole again."""
        for name in sorted(self.forged & set(self.pods)):
            self.call("DELETE", f"/embedded/pods/default/{name}")
        for name in NODES:
            self.apply_good(node(name), whole_device(name))
        return []

    def junk(self):
        with self.daemon.connect() as sock:
            sock.sendall(self.rng.choice(JUNK))
            sock.settimeout(0.1)
            try:
                sock.recv(self.rng.choice([1, 10, 100000]))
            except TimeoutError:
                pass
        return NODES

    def reload(self):
        def reloads():
            return self.daemon.log().count('"Configuration reloaded"')
        before = reloads()
        device_policy = self.rng.choice(["default", "binpack", "spread"])
        node_policy = self.rng.choice(["binpack", "spread", "none"])
        self.daemon.write_config(f"policy:\n  device: {device_policy}\n  node: {node_policy}\n")
        for _ in range(20):
            self.daemon.signal(signal.SIGHUP)
        wait_until(lambda: reloads() > before, "the reload")
        return NODES

    def burst(self):
        """Several clients bind the same pods to different nodes while the cluster changes."""
        self.new_pods()
        self.new_pods()
        self.look()
        loud = self.rng.choice(NODES)
        jobs = []
        for name in sorted(self.pods):
            if not self.pods[name]["spec"].get("nodeName") and not self.finished(name):
                for target in self.rng.sample(NODES, 3):
                    jobs.append(lambda stored=self.pods[name], to=target: self.bind(stored, to))
        for _ in range(6):
            jobs.append(lambda device=random_device(self.rng, loud): self.apply_good(device))
        jobs.append(lambda: self.call("DELETE", f"/embedded/devices/{loud}"))
        for name in self.rng.sample(sorted(self.pods), min(4, len(self.pods))):
            jobs.append(lambda name=name: self.call("DELETE", f"/embedded/pods/default/{name}"))
        self.rng.shuffle(jobs)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
        return [name for name in NODES if name != loud]

    def step(self):
        steps = {self.new_pods: 5, self.schedule: 20, self.bind_wrongly: 2, self.bind_again: 2,
                 self.filter_forged: 2, self.preempt: 3, self.end_pods: 3, self.edit_annotation: 2,
                 self.apply_refused: 2, self.change_devices: 3, self.change_node: 1, self.forge: 1,
                 self.heal: 3, self.junk: 1, self.reload: 1, self.burst: 2}
        step = self.rng.choices(list(steps), weights=list(steps.values()))[0]
        self.steps.append(step.__name__)
        before = self.shown
        quiet = step()
        self.check()
        self.check_room(before, quiet)


def parse(text):
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1000, "M": 10 ** 6,
             "G": 10 ** 9, "T": 10 ** 12}
    for unit, factor in units.items():
        if text.endswith(unit):
            return int(text[:-len(unit)]) * factor
    return int(text)


def without(shown, holders):
    """A node as it would be without these pods. A closed one opens with the last unknown pod."""
    if shown is None:
        return None
    less = json.loads(json.dumps(shown))
    cards = {(card["type"], card["minor"]): card for card in less["cards"]}
    for holder in holders:
        for share in holder["shares"]:
            card = cards[share["type"], share["minor"]]
            card["pods"] -= 1
            for name, amount in share["amount"].items():
                card["used"][name] -= amount
    gone = {holder["uid"] for holder in holders}
    less["closed"] = any(holder["trust"] == "unknown" and holder["uid"] not in gone
                         for holder in shown["pods"])
    return less


def test_chaos(start):
    daemon = start([node(name) for name in NODES])
    play = Play(daemon)
    play.apply_good(*[whole_device(name) for name in NODES])
    play.check()
    end = time.monotonic() + SECONDS
    done = 0
    try:
        while done < STEPS and time.monotonic() < end:
            play.step()
            done += 1
    except BaseException:
        print(f"CHAOS_SEED={SEED}, step {done}, the last ones:", *play.steps)
        raise
    assert play.bound > done // 20, "a play in which nothing happens proves nothing"
    for name in list(play.pods):
        play.call("DELETE", f"/embedded/pods/default/{name}")
    play.check()
    assert play.cache["counts"]["pods"] == 0 and play.cache["counts"]["inconsistentPods"] == 0
    assert all(not card["used"] for shown in play.shown.values() for card in shown["cards"])
