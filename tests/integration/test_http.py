# SPDX-License-Identifier: Apache-2.0
"""HTTP as such: statuses, limits, connections."""
import concurrent.futures
import json
import time

import pytest

from support import gpu_node, percent, pod, read_answer

GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


def test_unknown_path(daemon):
    for path in ("/", "/filter/", "/Filter", "/v1/filter", "/embedded/", "/filter%2F"):
        answer = daemon.post(path, {})
        assert answer.status == 404, path
        assert set(answer.json) == {"error"}


@pytest.mark.parametrize("path,method,allow", [
    ("/filter", "GET", "POST"), ("/bind", "PUT", "POST"), ("/livez", "POST", "GET, HEAD"),
    ("/metrics", "DELETE", "GET, HEAD"), ("/embedded/manifests", "PUT", "GET, HEAD, POST")])
def test_wrong_method(daemon, path, method, allow):
    answer = daemon.call(method, path)
    assert answer.status == 405
    assert answer.headers["allow"] == allow
    assert set(answer.json) == {"error"}


def test_body_too_large(start):
    daemon = start(config="server:\n  maxBodyBytes: 65536\n")
    large = b"x" * 1000000
    assert daemon.post("/filter", large).status == 413
    answer = daemon.call("POST", "/filter", large, headers=["Transfer-Encoding: chunked"])
    assert answer.status == 413
    assert daemon.get("/livez").status == 200


def test_headers_too_large(daemon):
    with daemon.connect() as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: ")
        try:
            for _ in range(100):
                sock.sendall(b"j" * 4096)
        except OSError:
            pass
        assert sock.recv(12) == b"HTTP/1.1 431"
    assert daemon.get("/livez").status == 200


def test_answers_have_a_length_and_nothing_behind(daemon):
    daemon.apply(pod("p", percent(50)))
    body = json.dumps(daemon.arguments(daemon.pod("p"), ["n1"]))
    for path in ("/filter", "/prioritize"):
        answer = daemon.post(path, body)
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert int(answer.headers["content-length"]) == len(answer.body)
        assert "transfer-encoding" not in answer.headers
        assert answer.body[-1:] in b"}]"


def test_connection_is_reused_by_curl(daemon):
    urls = [daemon.url + "/livez", daemon.url + "/nowhere", daemon.url + "/livez"]
    done = daemon.curl("-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null",
                       "-w", "%{http_code}:%{num_connects} ", *urls, path="/livez")
    assert done.stdout == b"200:1 404:0 200:0 200:0 "


def test_64_connections_at_once(start):
    daemon = start(gpu_node("n1") + [pod("p", percent(50))])
    body = json.dumps(daemon.arguments(daemon.pod("p"), ["n1"])).encode()
    request = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    sockets = [daemon.connect() for _ in range(64)]
    for _ in range(3):
        for sock in sockets:
            sock.sendall(request)
        for sock in sockets:
            answer, rest = read_answer(sock)
            assert answer.json["NodeNames"] == ["n1"] and rest == b""
    for sock in sockets:
        sock.close()


def test_parallel_curls(daemon):
    def ask(_):
        return daemon.get("/readyz").body
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(32))) == {b"ok"}


def test_slow_client_blocks_nobody_and_is_cut(start):
    daemon = start(gpu_node("n1"), config="server:\n  requestTimeout: 3s\n")
    begin = time.monotonic()
    with daemon.connect() as slow:
        slow.settimeout(1)
        answer = b""
        for byte in GET * 10:
            slow.send(bytes([byte]))
            assert daemon.get("/livez").status == 200
            try:
                answer = slow.recv(4096)
                break
            except TimeoutError:
                pass
        assert answer.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - begin > 2.5


def test_pipelining(daemon):
    with daemon.connect() as sock:
        sock.sendall(GET + b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
        first, rest = read_answer(sock)
        second, rest = read_answer(sock, rest)
        third, rest = read_answer(sock, rest)
        assert [first.status, second.status, third.status] == [200, 404, 200]
        assert rest == b""


def test_head(daemon):
    for path in ("/livez", "/metrics", "/debug/cache"):
        answer = daemon.call("HEAD", path)
        assert answer.status == 200
        assert answer.body == b""
        assert int(answer.headers["content-length"]) > 0


def test_expect(daemon):
    done = daemon.curl("-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect: 100-continue",
                       "--data-binary", "{}", path="/filter")
    assert done.stdout == b"200"


def test_ambiguous_framing_is_refused(daemon):
    requests = [
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST /filter HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding : chunked\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
        b"Content-Length\t: 5\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 00\r\n\r\n{}",
    ]
    for request in requests:
        with daemon.connect() as sock:
            sock.sendall(request)
            assert read_answer(sock)[0].status == 400


def test_probes(daemon):
    for path in ("/livez", "/readyz", "/healthz"):
        answer = daemon.get(path)
        assert (answer.status, answer.body) == (200, b"ok")
        assert answer.headers["content-type"].startswith("text/plain")
    assert daemon.get("/livez?verbose").body == b"[+]ping ok\nlivez check passed\n"
    assert daemon.get("/readyz?verbose").body == (
        b"[+]ping ok\n[+]synced ok\n[+]shutdown ok\nreadyz check passed\n")


def test_debug_cache_of_one_node(daemon):
    names = [item["name"] for item in daemon.cache()["nodes"]]
    assert names == ["n1", "n2"]
    one = daemon.get("/debug/cache?node=n2").json["nodes"]
    assert [item["name"] for item in one] == ["n2"]
    assert one[0]["cards"][0]["total"]["koordinator.sh/gpu-memory"] == 80 << 30
    assert daemon.get("/debug/cache?node=none").json["nodes"] == []


def test_embedded_routes_refuse_nonsense(daemon):
    assert daemon.post("/embedded/manifests", "kind: Secret\nmetadata: {name: x}\n").status == 400
    assert daemon.post("/embedded/manifests", b"\xff\xfe{").status == 400
    assert daemon.get("/embedded/manifests?format=xml").status == 400
    for path in ("/embedded/nodes/none", "/embedded/devices/none", "/embedded/pods/default/none",
                 "/embedded/pods/none"):
        assert daemon.delete(path).status == 404, path
    assert daemon.get("/embedded/manifests").headers["content-type"] == "application/yaml"
