#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""draw.py modes --build BUILD --out DIR: where the four modes of config/examples/modes put their pods.
draw.py curves --build BUILD --traces DIR --out DIR: what four policies allocate of the openb cluster.

The first asks the daemon with its embedded cluster, the second runs deviceshare-sim and prints the
numbers of docs/which-policy.md as well. `make pictures TRACES=DIR` draws all of them.
"""
import argparse
import json
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODES = ROOT / "config" / "examples" / "modes"
TITLES = {"a": "A: node binpack, device binpack", "b": "B: node spread, device binpack",
          "c": "C: node binpack, device spread", "d": "D: node spread, device spread"}
POLICIES = [("spread", "plain spread", "#8c6d31", "2 4"), ("bestfit", "BestFit", "#b5478a", "8 4"),
            ("fgd", "FGD", "#2b6cb0", "10 3 2 3"), ("pack", "pack", "#1a7f37", "")]
LISTS = ["default", "gpuspec33"]


def svg(width, height, title, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" '
                      f'font-size="12">', f"<title>{title}</title>",
                      f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *parts,
                      "</svg>", ""])


def text(x, y, words, more=""):
    return f'<text x="{x}" y="{y}" {more}>{words}</text>'


# ---- the four modes ----

def pods_of(mode):
    deployment = yaml.safe_load((MODES / f"mode-{mode}.yaml").read_text())
    template = deployment["spec"]["template"]
    return [{"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
             "metadata": {**template["metadata"], "name": f"replica-{number}"}}
            for number in range(deployment["spec"]["replicas"])]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def fetch(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return answer.read().decode()


def wait_until_ready(daemon, url):
    for _ in range(300):
        assert daemon.poll() is None, "the daemon has ended"
        try:
            fetch(url + "/readyz")
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the daemon is not ready")


def placed(build, mode):
    """{node: [(card, its memory, [names of the pods on it])]} as /debug/cache shows it."""
    with tempfile.TemporaryDirectory() as folder:
        manifests = pathlib.Path(folder) / "cluster.yaml"
        manifests.write_text((MODES / "nodes.yaml").read_text() + "---\n" +
                             yaml.safe_dump_all(pods_of(mode)))
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        config = pathlib.Path(folder) / "config.yaml"
        config.write_text("apiVersion: config.deviceshare.io/v1alpha1\n"
                          "kind: DeviceShareExtenderConfiguration\n")
        with subprocess.Popen([build / "deviceshare-extender", "--config", config, "--port",
                               str(port), "--embedded-manifests", manifests],
                              stderr=subprocess.DEVNULL) as daemon:
            try:
                wait_until_ready(daemon, url)
                subprocess.run([build / "deviceshare-demo", "--server", url], check=True,
                               stdout=subprocess.DEVNULL)
                nodes = json.loads(fetch(url + "/debug/cache"))["nodes"]
            finally:
                daemon.terminate()
    return {node["name"]: [(card["minor"], int(card["total"]["koordinator.sh/gpu-memory"]),
                            [pod["name"] for pod in node["pods"]
                             for share in pod["shares"] if share["minor"] == card["minor"]])
                           for card in node["cards"]] for node in nodes}


def draw_card(x, y, minor, pods):
    parts = [f'<rect x="{x}" y="{y}" width="52" height="76" fill="#f6f8fa" stroke="#57606a"/>',
             text(x + 26, y + 90, f"card {minor}", 'text-anchor="middle" fill="#57606a" font-size="10"')]
    for place, _ in enumerate(pods):
        top = y + 76 - 25 * (place + 1)
        parts.append(f'<rect x="{x + 3}" y="{top + 2}" width="46" height="22" rx="3" fill="#1a7f37"/>')
        parts.append(text(x + 26, top + 17, "pod", 'text-anchor="middle" fill="#ffffff"'))
    return parts


def draw_mode(x, y, mode, nodes):
    parts = [text(x, y + 14, TITLES[mode], 'font-weight="bold"')]
    for column, name in enumerate(sorted(nodes, reverse=True)):
        left = x + column * 250
        parts.append(f'<rect x="{left}" y="{y + 24}" width="238" height="130" fill="none" '
                     'stroke="#d0d7de" rx="6"/>')
        parts.append(text(left + 8, y + 40, f"node {name}", 'fill="#57606a"'))
        for minor, _, pods in nodes[name]:
            parts += draw_card(left + 8 + minor * 57, y + 48, minor, pods)
    return parts


def modes(build, out):
    parts = []
    for number, mode in enumerate(sorted(TITLES)):
        parts += draw_mode(12 + number % 2 * 520, 8 + number // 2 * 172, mode, placed(build, mode))
    (out / "modes.svg").write_text(svg(1030, 350, "Where four pods go in each of the four modes",
                                       parts))


# ---- curves ----

def simulate(build, traces, pods, policy):
    done = subprocess.run(
        [build / "deviceshare-sim", "--nodes", traces / "openb/openb_node_list_gpu_node.csv", "--pods",
         traces / f"openb/openb_pod_list_{pods}.csv", "--order", traces / f"orders/order_{pods}_42.txt",
         "--policy", policy, "--json"], check=True, capture_output=True, text=True)
    return {int(at): value
            for at, value in json.loads(done.stdout)["allocated_percent_at"].items()}


LEFT, TOP, WIDTH, HEIGHT, FIRST, LAST, LOW = 52, 30, 620, 330, 60, 130, 60


def point(at, value):
    x = LEFT + (at - FIRST) * WIDTH / (LAST - FIRST)
    return f"{x:.1f},{TOP + HEIGHT - (value - LOW) * HEIGHT / (100 - LOW):.1f}"


def axes():
    parts = []
    for value in range(LOW, 101, 5):
        y = point(FIRST, value).split(",")[1]
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y}" y2="{y}" stroke="#d8dee4"/>')
        parts.append(text(LEFT - 6, float(y) + 4, f"{value} %", 'text-anchor="end" fill="#57606a"'))
    for at in range(FIRST, LAST + 1, 10):
        x = point(at, LOW).split(",")[0]
        parts.append(text(x, TOP + HEIGHT + 16, f"{at} %", 'text-anchor="middle" fill="#57606a"'))
    parts.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, "GPUs asked for so far",
                      'text-anchor="middle"'))
    parts.append(f'<polyline points="{point(FIRST, FIRST)} {point(100, 100)} {point(LAST, 100)}" '
                 'fill="none" stroke="#afb8c1"/>')
    return parts


def draw_curves(pods, curves):
    parts = [text(LEFT, 18, f"GPUs allocated, openb trace, pods {pods}", 'font-weight="bold"'), *axes()]
    for number, (policy, title, colour, dash) in enumerate(POLICIES):
        line = " ".join(point(at, value) for at, value in sorted(curves[policy].items())
                        if FIRST <= at <= LAST and value >= LOW)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" '
                     f'stroke-dasharray="{dash}"/>')
        y = TOP + HEIGHT - 20 - 18 * number
        parts.append(f'<line x1="{LEFT + 400}" x2="{LEFT + 440}" y1="{y}" y2="{y}" stroke="{colour}" '
                     f'stroke-width="2" stroke-dasharray="{dash}"/>')
        parts.append(text(LEFT + 448, y + 4, title))
    return svg(LEFT + WIDTH + 20, TOP + HEIGHT + 46, f"GPUs allocated, pods {pods}", parts)


def curves(build, traces, out):
    for pods in LISTS:
        found = {policy: simulate(build, traces, pods, policy) for policy, *_ in POLICIES}
        (out / f"curves-{pods}.svg").write_text(draw_curves(pods, found))
        for policy, title, *_ in POLICIES:
            print(f"| {pods} | {title} | " +
                  " | ".join(f"{found[policy][at]:.2f}" for at in (80, 90, 100, 130)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["modes", "curves"])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--traces", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    if options.what == "modes":
        modes(build, options.out)
    elif options.traces is None:
        parser.error("curves: --traces names a folder with openb/ and orders/")
    else:
        curves(build, options.traces, options.out)


if __name__ == "__main__":
    main()
