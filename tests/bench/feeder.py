# SPDX-License-Identifier: Apache-2.0
"""An API server of thousands of objects that exist only while they are sent, in a process of its own.

    feeder.py DIRECTORY NODES PODS [PENDING...]

Serves TLS, prints the path of a kubeconfig in DIRECTORY, and then does what is asked line by line,
answering each with a line of JSON: `relist` makes followers list the pods anew, `events RATE SECONDS`
sends pod events at that rate, in turns pods that come and go. PENDING are files with further pods."""
import json
import pathlib
import queue
import re
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

# pylint: disable=wrong-import-position
from certificates import Authority
from fake_apiserver import JSON, FakeApiServer, Handler, expired

CARDS = 8
TICK = 0.01  # seconds between two batches of events
FRESH = 8_000_000  # pods that come and go count from here


def parts_of(name):
    """The text of an object between its marks, and the marks: ~N node, ~P pod, ~C card, ~V version."""
    text = (HERE / "objects" / f"{name}.json").read_text().strip()
    return re.split("~([NPCV])", text)


class Objects:
    """What there is."""

    def __init__(self, nodes, pods, pending):
        self.nodes, self.pods, self.pending = nodes, pods, pending
        self.parts = {name: parts_of(name) for name in ("node", "device", "pod-running")}

    def make(self, name, number):
        parts = list(self.parts[name])
        marks = {"N": f"{number % self.nodes:05}", "P": f"{number:07}",
                 "C": str(number // self.nodes % CARDS), "V": "1000"}
        for at in range(1, len(parts), 2):
            parts[at] = marks[parts[at]]
        return "".join(parts)

    def count(self, plural):
        return self.pods + len(self.pending) if plural == "pods" else self.nodes

    def item(self, plural, number):
        if plural != "pods":
            return self.make(plural.rstrip("s"), number)
        if number >= self.pods:
            return self.pending[number - self.pods]
        return self.make("pod-running", number)

    def page(self, plural, query):
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 0)
        end = min(start + (limit or 10**9), self.count(plural))
        more = f',"continue":"{end}"' if end < self.count(plural) else ""
        items = ",".join(self.item(plural, number) for number in range(start, end))
        return (f'{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"1000"{more}}},'
                f'"items":[{items}]}}').encode()

    def event(self, what, number):
        return (f'{{"type":"{what}","object":{{"kind":"Pod","apiVersion":"v1",'
                f'{self.make("pod-running", number)[1:]}}}\n').encode()


class Watchers:
    """Who follows the pods."""

    def __init__(self):
        self.queues, self.lock = [], threading.Lock()

    def add(self):
        with self.lock:
            self.queues.append(queue.Queue())
            return self.queues[-1]

    def send(self, data):
        with self.lock:
            for one in self.queues:
                one.put(data)


class BigHandler(Handler):
    """Serves the big kinds from nowhere, the others (leases, reviews) as the fake does."""

    def apply_to_all(self, request, kind, namespace):
        if kind.plural not in ("nodes", "devices", "pods") or request.method != "GET":
            return super().apply_to_all(request, kind, namespace)
        feeder = self.server.api
        if request.query.get("watch"):
            self.follow_kind(kind.plural)
            return None, None
        if kind.plural == "pods":
            feeder.list_begun = feeder.list_begun or time.monotonic()
        return 200, feeder.objects.page(kind.plural, request.query)

    def follow_kind(self, plural):
        feeder = self.server.api
        self.send_response(200)
        self.send_header("Content-Type", JSON)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        mine = feeder.watchers.add() if plural == "pods" else queue.Queue()
        try:
            while True:
                self.chunk(mine.get())
        except OSError:
            self.close_connection = True


class Feeder(FakeApiServer):
    """The server and what it is told to do."""

    def __init__(self, objects, tls):
        super().__init__(tls=tls)
        self.objects, self.watchers, self.list_begun = objects, Watchers(), None
        self._server.RequestHandlerClass = BigHandler

    def relist(self):
        self.list_begun = None
        self.watchers.send(expired(1000))
        return {}

    def events(self, rate, seconds):
        """Batches at even pace; how many were sent, and how long it took."""
        batch = max(1, round(float(rate) * TICK))
        ring = [[self.objects.event(what, FRESH + number) for number in range(at, at + batch)]
                for at in range(0, 50 * batch, batch) for what in ("ADDED", "DELETED")]
        begun, sent = time.monotonic(), 0
        while (now := time.monotonic() - begun) < float(seconds):
            due = now * float(rate)
            while sent < due:
                self.watchers.send(b"".join(ring[sent // batch % len(ring)]))
                sent += batch
            time.sleep(TICK)
        # Whoever came last goes.
        if sent // batch % 2:
            self.watchers.send(b"".join(ring[sent // batch % len(ring)]))
            sent += batch
        return {"sent": sent, "seconds": time.monotonic() - begun}


def main():
    directory, nodes, pods, *pending = sys.argv[1:]
    directory = pathlib.Path(directory)
    objects = Objects(int(nodes), int(pods),
                      [pathlib.Path(path).read_text().strip() for path in pending])
    authority = Authority(directory / "pki")
    server = authority.server()
    with Feeder(objects, (server.cert, server.key)) as feeder:
        print(feeder.kubeconfig(directory, ca=authority.cert), flush=True)
        for line in sys.stdin:
            what, *arguments = line.split()
            print(json.dumps(getattr(feeder, what)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
