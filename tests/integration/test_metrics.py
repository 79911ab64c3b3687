# SPDX-License-Identifier: Apache-2.0
"""/metrics: the rules of the text format that promtool checks, and those that it does not."""
import re
import signal

from support import GIB, gpu_node, percent, pod, wait_until

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?[0-9.e+-]+|\+Inf|NaN)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')


def scrape(daemon):
    """{family: type}, [(family, name, labels, value)]; asserts the grammar."""
    answer = daemon.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = answer.body.decode()
    assert text.endswith("\n")
    types, helps, samples, closed = {}, set(), [], set()
    current = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in helps, f"HELP of {current} twice"
            helps.add(current)
            assert len(line.split(None, 3)) == 4, f"HELP of {current} is empty"
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == current and name not in types
            types[name] = kind
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match[1], match[2] or "", float(match[3])
        assert LABEL.sub("", labels).strip(",") == "", labels
        family = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
        assert family == current, f"{name} is not with its family"
        assert family not in closed
        samples.append((family, name, tuple(LABEL.findall(labels)), value))
    assert helps == set(types)
    assert len({(name, labels) for _, name, labels, _ in samples}) == len(samples)
    return types, samples


def value(samples, name, **labels):
    found = [number for _, sample, pairs, number in samples
             if sample == name and dict(pairs) == labels]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def test_format(daemon):
    daemon.apply(pod("p", percent(50)))
    daemon.schedule("p", ["n1", "n2"])
    types, samples = scrape(daemon)
    for family, kind in types.items():
        assert kind in ("counter", "gauge", "histogram")
        assert (kind == "counter") == family.endswith("_total"), family


def test_histograms(daemon):
    daemon.apply(*[pod(f"p{i}", percent(10)) for i in range(10)])
    for i in range(10):
        daemon.schedule(f"p{i}", ["n1", "n2"])
    types, samples = scrape(daemon)
    histograms = [family for family, kind in types.items() if kind == "histogram"]
    assert "deviceshare_extender_request_duration_seconds" in histograms
    for family in histograms:
        series = {}
        for _, name, labels, number in samples:
            if name == family + "_bucket":
                rest = tuple(pair for pair in labels if pair[0] != "le")
                series.setdefault(rest, []).append((float(dict(labels)["le"]), number))
        assert series
        for labels, buckets in series.items():
            assert buckets == sorted(buckets), "bounds rise"
            counts = [count for _, count in buckets]
            assert counts == sorted(counts), "buckets are cumulative"
            assert buckets[-1][0] == float("inf")
            assert value(samples, family + "_count", **dict(labels)) == counts[-1]
            assert value(samples, family + "_sum", **dict(labels)) >= 0
    assert value(samples, "deviceshare_extender_request_duration_seconds_count", verb="bind") == 10


def test_counts_of_calls(daemon):
    daemon.apply(pod("p", percent(50)))
    stored = daemon.pod("p")
    daemon.filter(stored, ["n1"])
    daemon.post("/filter", "not json")
    daemon.post("/prioritize", "not json")
    daemon.bind(stored, "n1")
    daemon.bind(stored, "n2")
    _, samples = scrape(daemon)
    for verb, calls, errors in (("filter", 2, 1), ("prioritize", 1, 1), ("preempt", 0, 0),
                                ("bind", 2, 1)):
        assert value(samples, "deviceshare_extender_requests_total", verb=verb) == calls
        assert value(samples, "deviceshare_extender_request_errors_total", verb=verb) == errors
    assert value(samples, "scheduler_deviceshare_allocations_total", result="success") == 1
    assert value(samples, "deviceshare_http_responses_total", code="4xx") == 1
    assert value(samples, "deviceshare_http_responses_total", code="5xx") == 0


def test_gauges(daemon):
    daemon.apply(pod("p", percent(50)), pod("q", percent(50)))
    daemon.bind(daemon.pod("p"), "n1")
    _, samples = scrape(daemon)
    assert value(samples, "deviceshare_cache_nodes") == 2
    assert value(samples, "deviceshare_cache_cards") == 4
    assert value(samples, "deviceshare_cache_pods") == 2
    assert value(samples, "deviceshare_synced") == 1
    assert value(samples, "deviceshare_leading") == 1
    card = {"node": "n1", "minor": "0"}
    assert value(samples, "device_gpu_total_core", **card) == 100
    assert value(samples, "device_gpu_used_core", **card) == 50
    assert value(samples, "device_gpu_free_core", **card) == 50
    assert value(samples, "device_gpu_total_memory_bytes", **card) == 80 * GIB
    assert value(samples, "device_gpu_used_memory_bytes", **card) == 40 * GIB
    assert value(samples, "device_gpu_free_memory_bytes", **card) == 40 * GIB
    assert value(samples, "device_gpu_free_core", node="n2", minor="1") == 100


def has_cards(daemon):
    return "device_gpu_total_core" in scrape(daemon)[0]


def test_series_per_card_can_be_switched(start):
    nodes = gpu_node("n1") + gpu_node("n2")
    assert not has_cards(start(nodes, config="metrics:\n  perCard: off\n"))
    assert not has_cards(start(nodes, config="metrics:\n  perCardMaxNodes: 1\n"))
    assert has_cards(start(nodes, config="metrics:\n  perCard: on\n  perCardMaxNodes: 1\n"))
    daemon = start(nodes)
    assert has_cards(daemon)
    daemon.write_config("metrics:\n  perCard: off\n")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: not has_cards(daemon), "the reload")


def test_pods_are_no_labels(daemon):
    daemon.apply(pod("very-special-name", percent(50)))
    daemon.schedule("very-special-name", ["n1"])
    assert b"very-special-name" not in daemon.get("/metrics").body
