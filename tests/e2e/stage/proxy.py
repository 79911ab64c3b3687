# SPDX-License-Identifier: Apache-2.0
"""A way between a daemon and the API server on which bad things happen when a story says so.

It takes plain HTTP from the daemon and speaks to the API server as the user that it stands for. So
it knows each request, and one that it holds outlives the process that sent it, as a request in the
network or in a busy API server does.
"""
import contextlib
import re
import select
import socket
import ssl
import threading

from .process import PATIENCE, free_port

BINDING = r"POST /api/v1/namespaces/[^/]+/pods/[^/]+/binding\?"
_CHUNK = 65536


class Held:
    """A request that the proxy keeps, whole, until it is released or dropped. With `answer`, it has
    been carried out, and what is kept is the answer."""

    def __init__(self, pattern, answer):
        self.pattern, self.answer = re.compile(pattern), answer
        self.line, self.status = None, None
        self.arrived, self.go, self.done = (threading.Event() for _ in range(3))
        self.dropped = False

    def wait_arrived(self):
        assert self.arrived.wait(PATIENCE), f"no request {self.pattern.pattern} came"
        return self.line

    def release(self):
        """Let it go on its way; the status that the API server answers it."""
        self.go.set()
        assert self.done.wait(PATIENCE), f"{self.line} is not answered"
        return self.status

    def drop(self):
        self.dropped = True
        self.go.set()


class Proxy:
    """One daemon's way. Threads of its own; stop() ends them."""

    def __init__(self, plane, name, user="deviceshare"):
        self.plane, self.name = plane, name
        self.context = ssl.create_default_context(cafile=str(plane.authority.cert))
        self.context.load_cert_chain(*map(str, plane.authority.issue(user, "system:masters")))
        self.lock = threading.Lock()
        self.held, self.open = [], set()
        # Set: bytes are carried. Clear: every byte stays where it is.
        self.flowing = threading.Event()
        self.flowing.set()
        self.stopped = False
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def kubeconfig(self, namespace):
        """A kubeconfig that leads through here."""
        path = self.plane.directory / f"{self.name}.kubeconfig"
        path.write_text(f"""apiVersion: v1
kind: Config
clusters: [{{name: way, cluster: {{server: "http://127.0.0.1:{self.port}"}}}}]
contexts: [{{name: way, context: {{cluster: way, namespace: {namespace}}}}}]
current-context: way
""")
        return path

    # ---- what a story does ----

    def hold(self, pattern=BINDING, answer=False):
        """Keep the next request whose first line begins with the pattern."""
        held = Held(pattern, answer)
        with self.lock:
            self.held.append(held)
        return held

    def black_hole(self):
        """Nothing comes through any more, and nobody is told."""
        self.flowing.clear()

    def heal(self):
        """Connections can be made again. What got lost in the hole stays lost."""
        self._cut()
        self.flowing.set()

    def _cut(self):
        with self.lock:
            for one in self.open:
                with contextlib.suppress(OSError):
                    # Not the shutdown of TLS, which belongs to the thread that uses it.
                    socket.socket.shutdown(one, socket.SHUT_RDWR)

    def stop(self):
        self.stopped = True
        self.flowing.set()
        self._cut()
        self.listener.close()
        for held in self.held:
            held.drop()

    # ---- carrying ----

    def _accept(self):
        while not self.stopped:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client):
        server = None
        try:
            with self.lock:
                self.open.add(client)
            server = self.context.wrap_socket(
                socket.create_connection(("127.0.0.1", self.plane.port)),
                server_hostname="127.0.0.1")
            with self.lock:
                self.open.add(server)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self._exchange(client, server):
                pass
        except (OSError, ValueError):
            pass # one of the two has gone; so does the other
        finally:
            with self.lock:
                self.open -= {client, server}
            for one in (client, server):
                if one is not None:
                    one.close()

    def _exchange(self, client, server):
        """One request and its answer; False when there is no other."""
        request = _read_message(client.recv, self.flowing)
        if request is None:
            return False
        line = request.split(b"\r\n", 1)[0].decode()
        held = self._match(line)
        if held and not held.answer:
            self._keep(held, line)
            if held.dropped:
                return False
        server.sendall(request)
        head, rest = _read_head(server.recv, self.flowing)
        if held:
            held.status = int(head.split(b" ", 2)[1])
            if held.answer:
                self._keep(held, line)
            held.done.set()
        client.sendall(head)
        return self._carry_body(client, server, head, rest)

    def _match(self, line):
        with self.lock:
            for held in self.held:
                if held.line is None and held.pattern.match(line):
                    held.line = line
                    return held
        return None

    @staticmethod
    def _keep(held, line):
        held.arrived.set()
        held.go.wait()

    def _carry_body(self, client, server, head, rest):
        """The answer's body as it comes. A watch has no end: then that of either side is it."""
        length = _content_length(head)
        chunked = re.search(rb"\r\ntransfer-encoding: *chunked", head, re.I)
        left, tail = length or 0, b""
        while True:
            if rest:
                client.sendall(rest)
                left, tail = left - len(rest), (tail + rest)[-5:]
            # JSON has no line ends of this kind within.
            if tail == b"0\r\n\r\n" if chunked else left <= 0:
                return True
            if not server.pending():
                ready, _, _ = select.select([client, server], [], [])
                if client in ready: # it hangs up: nobody sends a request before the answer's end
                    return False
            rest = server.recv(_CHUNK)
            if not rest:
                return False
            self.flowing.wait()


def _content_length(head):
    match = re.search(rb"\r\ncontent-length: *([0-9]+)", head, re.I)
    return int(match[1]) if match else None


def _read_head(receive, flowing):
    """A message's head, and what came behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = receive(_CHUNK)
        if not piece:
            raise ConnectionError("ended within a head")
        flowing.wait()
        data += piece
    head, rest = data.split(b"\r\n\r\n", 1)
    return head + b"\r\n\r\n", rest


def _read_message(receive, flowing):
    """A whole request; None at the end of the connection."""
    try:
        head, body = _read_head(receive, flowing)
    except ConnectionError:
        return None
    while len(body) < (_content_length(head) or 0):
        piece = receive(_CHUNK)
        if not piece:
            return None
        flowing.wait()
        body += piece
    return head + body
