# SPDX-License-Identifier: Apache-2.0
"""An API server in memory that does what a test says, also what a real one does only when it is ill.

    with FakeApiServer() as api:
        api.put(node("n1"))
        api.fault("POST", r"/binding", Fault(then="reset", applied=True))
        ... start something with api.kubeconfig(directory) ...
        assert api.seen("POST", r"/binding")

Lists come in pages, watches resume from a version as long as it is remembered, a pod that leaves a
selection is told as deleted, a binding checks the UID, a write with an old version is a conflict.
There is no validation, no authorization and no garbage collection."""
import copy
import dataclasses
import datetime
import http.server
import json
import re
import socket
import ssl
import struct
import threading
import time
import urllib.parse
import uuid

JSON = "application/json"


@dataclasses.dataclass
class Kind:
    """A resource that is served."""
    name: str
    api_version: str
    plural: str
    namespaced: bool
    installed: bool = True

    @property
    def prefix(self):
        group = "/api/" if "/" not in self.api_version else "/apis/"
        return group + self.api_version


@dataclasses.dataclass
class Fault:
    """What happens to a request instead of a plain answer."""
    status: int = 0                # answer with this status ...
    reason: str = ""               # ... and a Status of this reason
    message: str = "as scripted"
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = None             # or with these bytes
    content_type: str = None
    stall: float = 0               # seconds before anything happens
    held: threading.Event = None   # nothing happens before it is set
    stall_answer: float = 0        # seconds between the effect and the answer
    applied: bool = None           # the request takes effect all the same
    applied_after: float = None    # or so many seconds later, when nobody waits for it any more
    then: str = "answer"           # answer | half | close | reset | silent

    def takes_effect(self):
        return self.applied if self.applied is not None else not self.status and \
            self.then in ("answer", "half")


class Refusal(Exception):
    """An answer that is a Status of failure."""

    def __init__(self, code, reason, message, **details):
        super().__init__(message)
        self.code = code
        self.body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                     "message": message, "reason": reason, "details": details, "code": code}


def not_found(kind, name):
    return Refusal(404, "NotFound", f'{kind.plural} "{name}" not found', kind=kind.plural, name=name)


def conflict(kind, name, why):
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{name}": {why}',
                   kind=kind, name=name)


def merge(target, patch):
    """RFC 7396."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = merge(target.get(key) if isinstance(target.get(key), dict) else {}, value)
        else:
            target[key] = value
    return target


def selects(query, obj):
    """Field and label selectors of = and != terms."""
    def field(path):
        value = obj
        for part in path.split("."):
            value = value.get(part, {}) if isinstance(value, dict) else {}
        return value if value != {} else ""

    labels = obj["metadata"].get("labels") or {}
    for parameter, look_up in (("fieldSelector", field), ("labelSelector", labels.get)):
        for term in filter(None, query.get(parameter, "").split(",")):
            name, unequal, value = re.fullmatch(r"([^!=]+)(!?)==?(.*)", term).groups()
            if (look_up(name) == value) == bool(unequal):
                return False
    return True


class Store:
    """Objects of all kinds, their versions and what happened to them."""

    def __init__(self):
        self.changed = threading.Condition()
        self.kinds = [
            Kind("Node", "v1", "nodes", False),
            Kind("Pod", "v1", "pods", True),
            Kind("Device", "scheduling.koordinator.sh/v1alpha1", "devices", False),
            Kind("Lease", "coordination.k8s.io/v1", "leases", True),
        ]
        self.version = 100
        self.objects = {}  # (kind name, namespace, name) -> object
        self.history = []  # (version, type, kind name, object, object before)
        self.forgotten = 0  # a watch from an older version has expired

    def kind(self, name):
        return next(kind for kind in self.kinds if kind.name == name)

    def find(self, kind, namespace, name):
        obj = self.objects.get((kind.name, namespace, name))
        if obj is None:
            raise not_found(kind, name)
        return obj

    def _record(self, what, kind, obj, before):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, what, kind.name, copy.deepcopy(obj), before))
        self.changed.notify_all()

    def put(self, obj):
        """Create or replace, as a test says it."""
        obj = copy.deepcopy(obj)
        kind = self.kind(obj["kind"])
        meta = obj["metadata"]
        if kind.namespaced:
            meta.setdefault("namespace", "default")
        meta.setdefault("uid", str(uuid.uuid4()))
        meta.setdefault("creationTimestamp",
                        datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
        if kind.name == "Pod":
            obj.setdefault("status", {}).setdefault("phase", "Pending")
        key = (kind.name, meta.get("namespace", ""), meta["name"])
        with self.changed:
            before = self.objects.get(key)
            self.objects[key] = obj
            self._record("MODIFIED" if before else "ADDED", kind, obj, copy.deepcopy(before))
        return copy.deepcopy(obj)

    def delete(self, kind, namespace, name):
        with self.changed:
            obj = self.find(kind, namespace, name)
            before = copy.deepcopy(obj)
            del self.objects[kind.name, namespace, name]
            self._record("DELETED", kind, obj, before)
        return obj

    def change(self, kind, namespace, name, edit):
        """Change an object in place by edit(object)."""
        with self.changed:
            obj = self.find(kind, namespace, name)
            before = copy.deepcopy(obj)
            edit(obj)
            self._record("MODIFIED", kind, obj, before)
            return copy.deepcopy(obj)

    def forget(self):
        """No version from before now can be resumed from, or be paged on."""
        with self.changed:
            self.forgotten = self.version
            self.history.clear()

    def items(self, kind, namespace, query):
        return [obj for (name, space, _), obj in sorted(self.objects.items())
                if name == kind.name and namespace in ("", space) and selects(query, obj)]

    def bind(self, namespace, name, binding):
        """POST pods/binding."""
        def edit(pod):
            uid = binding["metadata"].get("uid")
            if uid and uid != pod["metadata"]["uid"]:
                raise conflict("pods", name, f"Precondition failed: UID in precondition: {uid}, UID"
                               f" in object meta: {pod['metadata']['uid']}")
            if pod["metadata"].get("deletionTimestamp"):
                raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be "
                               "assigned to a host")
            if pod["spec"].get("nodeName"):
                raise conflict("pods/binding", name, f"pod {name} is already assigned to node "
                               f"\"{pod['spec']['nodeName']}\"")
            if pod["spec"].get("schedulingGates"):
                raise conflict("pods/binding", name, f"pod {name} has non-empty .spec."
                               "schedulingGates")
            pod["spec"]["nodeName"] = binding["target"]["name"]
            annotations = binding["metadata"].get("annotations") or {}
            pod["metadata"].setdefault("annotations", {}).update(annotations)
        self.change(self.kind("Pod"), namespace, name, edit)


class Watch:
    """One watch that runs."""

    def __init__(self, handler, kind, namespace, query):
        self.handler, self.kind, self.namespace, self.query = handler, kind, namespace, query
        self.silent = False
        self.orders = []  # bytes to send, or how to end

    def event(self, entry):
        """The event of a history entry as this watch sees it, or None."""
        _, what, kind, obj, before = entry
        if kind != self.kind.name or self.namespace not in ("", obj["metadata"].get("namespace", "")):
            return None
        was = before is not None and selects(self.query, before)
        is_in = what != "DELETED" and selects(self.query, obj)
        if not was and not is_in:
            return None
        shown = obj
        if not is_in:
            shown = copy.deepcopy(before)
            shown["metadata"]["resourceVersion"] = obj["metadata"]["resourceVersion"]
        return {"type": "MODIFIED" if was and is_in else "ADDED" if is_in else "DELETED",
                "object": {"kind": self.kind.name, "apiVersion": self.kind.api_version, **shown}}


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    # Names that http.server prescribes.
    def do_GET(self):  # pylint: disable=invalid-name
        self.serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass

    def serve(self):
        api = self.server.api
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        request = Request(self.command, self.path, dict(self.headers), body)
        fault = api.note(request)
        time.sleep(fault.stall)
        if fault.held:
            fault.held.wait()
        status, answer = 0, b""
        if fault.applied_after is not None:
            threading.Timer(fault.applied_after, self.apply_late, [request]).start()
        if fault.takes_effect():
            try:
                status, answer = self.apply(request)
            except Refusal as refusal:
                status, answer = refusal.code, refusal.body
            if status is None:  # it was a watch, which has answered by itself
                return
        time.sleep(fault.stall_answer)
        if fault.status:
            status = fault.status
            answer = Refusal(status, fault.reason, fault.message).body
        if fault.body is not None:
            answer = fault.body
        self.finish_with(fault, status or 200, answer)

    def finish_with(self, fault, status, answer):
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        if fault.then in ("answer", "half"):
            self.send_response(status)
            for name, value in fault.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", fault.content_type or JSON)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data if fault.then == "answer" else data[:len(data) // 2])
        if fault.then != "answer":
            self.end(fault.then)

    def end(self, how):
        """End the connection in this way."""
        self.close_connection = True
        if how == "silent":
            self.connection.settimeout(None)
            try:
                self.connection.recv(1)
            except OSError:
                pass
        if how == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def apply_late(self, request):
        try:
            self.apply(request)
        except Refusal:
            pass

    # ---- what a request means ----

    def apply(self, request):
        store = self.server.api.store
        if request.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            return 201, self.server.api.review(request.json())
        for kind in store.kinds:
            match = re.fullmatch(
                re.escape(kind.prefix) + ("(?:/namespaces/(?P<namespace>[^/]+))?"
                                          if kind.namespaced else "(?P<namespace>)") +
                f"/{kind.plural}(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?", request.path)
            if match and kind.installed:
                name, namespace = match["name"], match["namespace"] or ""
                if name is None:
                    return self.apply_to_all(request, kind, namespace)
                return self.apply_to_one(request, kind, namespace, name, match["sub"])
        raise Refusal(404, "NotFound", "the server could not find the requested resource")

    def apply_to_all(self, request, kind, namespace):
        store, query = self.server.api.store, request.query
        if request.method == "POST":
            obj = {"kind": kind.name, "apiVersion": kind.api_version, **request.json()}
            if kind.namespaced:
                obj["metadata"]["namespace"] = namespace
            with store.changed:
                if (kind.name, namespace, obj["metadata"]["name"]) in store.objects:
                    raise Refusal(409, "AlreadyExists", "it already exists")
                return 201, store.put(obj)
        if query.get("watch") in ("1", "true"):
            return self.watch(kind, namespace, query), None
        with store.changed:
            return 200, self.page(kind, namespace, query)

    def page(self, kind, namespace, query):
        store = self.server.api.store
        items, version, start = store.items(kind, namespace, query), store.version, 0
        if query.get("continue"):
            start, version = map(int, query["continue"].split("@"))
            if version < store.forgotten:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
        limit = int(query.get("limit") or 0) or len(items) + 1
        meta = {"resourceVersion": str(version)}
        if start + limit < len(items):
            meta["continue"] = f"{start + limit}@{version}"
        return {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": meta,
                "items": copy.deepcopy(items[start:start + limit])}

    def apply_to_one(self, request, kind, namespace, name, sub):
        store = self.server.api.store
        if request.method == "GET":
            with store.changed:
                obj = copy.deepcopy(store.find(kind, namespace, name))
            return 200, {"kind": kind.name, "apiVersion": kind.api_version, **obj}
        if request.method == "POST" and sub == "binding":
            store.bind(namespace, name, request.json())
            return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                         "code": 201}
        if request.method == "DELETE":
            return 200, store.delete(kind, namespace, name)
        body = request.json()

        def edit(obj):
            meta = body.get("metadata") or {}
            if meta.get("resourceVersion") not in (None, "", obj["metadata"]["resourceVersion"]):
                raise conflict(kind.plural, name, "the object has been modified; please apply your "
                               "changes to the latest version and try again")
            if meta.get("uid") not in (None, obj["metadata"]["uid"]):
                raise conflict(kind.plural, name, "Precondition failed: UID in precondition")
            if request.method == "PUT":
                identity = {key: obj["metadata"][key] for key in ("uid", "creationTimestamp")}
                obj.clear()
                obj.update(body)
                obj["metadata"].update(identity)
            else:
                merge(obj, body)
        return 200, store.change(kind, namespace, name, edit)

    # ---- watches ----

    def watch(self, kind, namespace, query):
        api, store = self.server.api, self.server.api.store
        seconds = float(query.get("timeoutSeconds") or 1800)
        version = int(query.get("resourceVersion") or 0)
        watch = Watch(self, kind, namespace, query)
        with store.changed:  # before the client hears anything, so that a test may count on it
            if version < store.forgotten:
                watch.orders.append(expired(version))
            api.watches.append(watch)
        try:
            self.send_response(200)
            self.send_header("Content-Type", JSON)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.follow(watch, version, time.monotonic() + seconds)
        except OSError:
            self.close_connection = True
        finally:
            with store.changed:
                api.watches.remove(watch)

    def follow(self, watch, version, end):
        store = self.server.api.store
        while time.monotonic() < end:
            with store.changed:
                entries = [entry for entry in store.history if entry[0] > version]
                orders, watch.orders = watch.orders, []
                if not entries and not orders:
                    store.changed.wait(min(0.5, max(0, end - time.monotonic())))
                    continue
            if entries:
                version = entries[-1][0]
            if not watch.silent:
                for event in filter(None, map(watch.event, entries)):
                    self.chunk(json.dumps(event).encode() + b"\n")
            for order in orders:
                if isinstance(order, str):
                    self.end(order)
                    return
                self.chunk(order)
        self.chunk(b"")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def expired(version):
    status = Refusal(410, "Expired", f"too old resource version: {version}").body
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class Request:
    """A request as it came."""

    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        self.path, _, query = target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.target, self.time = target, time.monotonic()

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.method} {self.target}>"


class Server(http.server.ThreadingHTTPServer):
    """Listens; each connection has a thread."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, api, context):
        super().__init__(("127.0.0.1", 0), Handler)
        self.api, self.context = api, context

    def finish_request(self, request, client_address):
        if self.context:
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        pass  # a client that went away; what matters is seen on its side


class FakeApiServer:
    """The server and what a test does with it. `tls` is (certificate file, key file)."""

    def __init__(self, tls=None, client_ca=None):
        self.store = Store()
        self.watches = []    # under store.changed
        self.requests = []   # likewise
        self._faults = []    # likewise: [method, pattern, fault, times]
        self.denied = set()  # (verb, resource) that an access review denies
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*map(str, tls))
            if client_ca:
                context.load_verify_locations(str(client_ca))
                context.verify_mode = ssl.CERT_REQUIRED
        self._server = Server(self, context)
        self.port = self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self.end_watches("close")
        self._server.server_close()

    def kubeconfig(self, directory, **user):
        """Write a kubeconfig for this server; keyword arguments are members of its user, `ca` is
        the certificate authority's file."""
        cluster = {"server": self.url}
        if "ca" in user:
            cluster["certificate-authority"] = str(user.pop("ca"))
        path = directory / "kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": user}]}))
        return path

    # ---- objects ----

    def put(self, *objects):
        """Create or replace; the objects as stored."""
        return [self.store.put(obj) for obj in objects]

    def get(self, kind, name, namespace=None):
        """The object, or None."""
        kind = self.store.kind(kind)
        space = (namespace or "default") if kind.namespaced else ""
        with self.store.changed:
            return copy.deepcopy(self.store.objects.get((kind.name, space, name)))

    def all(self, kind):
        """Every object of a kind."""
        with self.store.changed:
            return copy.deepcopy(self.store.items(self.store.kind(kind), "", {}))

    def change(self, kind, name, edit, namespace=None):
        """Change an object by edit(object)."""
        kind = self.store.kind(kind)
        space = (namespace or "default") if kind.namespaced else ""
        return self.store.change(kind, space, name, edit)

    def delete(self, kind, name, namespace=None):
        kind = self.store.kind(kind)
        return self.store.delete(kind, (namespace or "default") if kind.namespaced else "", name)

    def install(self, kind, installed=True):
        """Install or remove the definition of a custom resource."""
        self.store.kind(kind).installed = installed

    def review(self, review):
        """Answer a SelfSubjectAccessReview."""
        asked = review["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, [asked.get("resource"), asked.get("subresource")]))
        allowed = (asked["verb"], resource) not in self.denied
        return {**review, "status": {"allowed": allowed}}

    # ---- faults ----

    def fault(self, method, pattern, fault, times=1):
        """The next `times` requests of this method whose target matches are treated so."""
        with self.store.changed:
            self._faults.append([method, pattern, fault, times])

    def note(self, request):
        """Remember a request and say what happens to it."""
        with self.store.changed:
            self.requests.append(request)
            for entry in self._faults:
                method, pattern, fault, times = entry
                if times > 0 and request.method == method and re.search(pattern, request.target):
                    entry[3] -= 1
                    return fault
        return Fault()

    def seen(self, method, pattern):
        """Requests so far of this method whose target matches."""
        with self.store.changed:
            return [request for request in self.requests
                    if request.method == method and re.search(pattern, request.target)]

    # ---- watches ----

    def follows(self, *kinds):
        """Is what was asked for last of each of these kinds a watch of all, and does it run?"""
        def runs(kind):
            asked = [request for request in self.requests if request.method == "GET" and
                     request.path == f"{kind.prefix}/{kind.plural}"]
            return any(watch.query is asked[-1].query for watch in self.watches if asked)
        with self.store.changed:
            return all(runs(self.store.kind(kind)) for kind in kinds)

    def _order(self, kind, order):
        with self.store.changed:
            chosen = [watch for watch in self.watches if kind in (None, watch.kind.name)]
            for watch in chosen:
                watch.orders.append(order)
            self.store.changed.notify_all()
        return len(chosen)

    def end_watches(self, how="reset", kind=None):
        """End watches by "close" or "reset"; how many."""
        return self._order(kind, how)

    def send(self, kind, *events):
        """Send events down the watches of a kind as they are: late ones, duplicates, half lines
        (bytes)."""
        data = b"".join(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
                        for event in events)
        return self._order(kind, data)

    def bookmark(self, kind):
        """Tell watches the version that is reached."""
        api_version = self.store.kind(kind).api_version
        return self.send(kind, {"type": "BOOKMARK", "object": {
            "kind": kind, "apiVersion": api_version,
            "metadata": {"resourceVersion": str(self.store.version), "creationTimestamp": None}}})

    def expire(self, kind=None):
        """Every version until now is too old, also for the watches that run."""
        self.store.forget()
        return self._order(kind, expired(self.store.version))

    def silence(self, kind=None):
        """The watches that run say nothing any more, and stay."""
        with self.store.changed:
            for watch in self.watches:
                if kind in (None, watch.kind.name):
                    watch.silent = True
