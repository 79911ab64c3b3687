# SPDX-License-Identifier: Apache-2.0
"""A trace of nodes and pods, in the simulator's CSV format, as files and as objects."""
import csv
import json
import random
import subprocess

from .objects import CORE, GIB, RATIO, advertised, gpus, pod
from .parts import BUILD

MIB = 1 << 20
MODEL = "node.koordinator.sh/gpu-model"


def _rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def published(folder, arrivals, every=4):
    """Every so-maniest node of the openb list, and the first so many arrivals of the default order."""
    nodes = sorted(_rows(folder / "openb/openb_node_list_gpu_node.csv"), key=lambda row: row["sn"])
    pods = sorted(_rows(folder / "openb/openb_pod_list_default.csv"), key=lambda row: row["name"])
    order = (folder / "orders/order_default_42.txt").read_text().splitlines()[1].split()
    return nodes[::every], pods, [int(index) for index in order[:arrivals]]


def small(seed=1):
    """Twelve nodes and 160 arrivals of our own, that ask for a little more than there is."""
    draw = random.Random(seed)
    shapes = [(8, 96000, 393216, "big"), (4, 64000, 262144, "middle"), (2, 48000, 131072, "small")]
    nodes = []
    for number in range(12):
        cards, cpu, memory, model = shapes[number % 3]
        nodes.append({"sn": f"node-{number:02}", "cpu_milli": cpu, "memory_mib": memory,
                      "gpu": cards, "model": model})
    pods = []
    for number in range(160):
        cards, milli = draw.choice([(0, 0), (1, 460), (1, 230), (1, 810), (1, 310), (1, 1000),
                                    (1, 1000), (2, 1000)])
        pods.append({"name": f"pod-{number:03}", "cpu_milli": 1000 * draw.choice([2, 4, 6, 8]),
                     "memory_mib": 1024 * draw.choice([4, 8, 16]), "num_gpu": cards,
                     "gpu_milli": milli})
    return nodes, pods, list(range(len(pods)))


def capacity(nodes):
    return sum(int(row["gpu"]) for row in nodes) * 1000


def demand(row):
    return int(row["num_gpu"]) * int(row["gpu_milli"])


def simulate(directory, nodes, pods, arrivals, policy, *flags):
    """Percent of the GPUs that deviceshare-sim allocates to these arrivals."""
    for name, rows in (("nodes", nodes), ("pods", pods)):
        with open(directory / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            fields = [field for field in rows[0] if field in (
                "sn", "model", "gpu", "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")]
            writer = csv.DictWriter(file, fields, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    # Nodes in the order of their names, as the daemon's list of them has it.
    (directory / "order.txt").write_text(" ".join(map(str, range(len(nodes)))) + "\n" +
                                         " ".join(map(str, arrivals)) + "\n")
    done = subprocess.run([BUILD / "deviceshare-sim", "--nodes", directory / "nodes.csv", "--pods",
                           directory / "pods.csv", "--order", directory / "order.txt", "--policy",
                           policy, *flags, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["allocated_percent"]


def cards_of(row):
    return gpus(int(row["gpu"]), 16 * GIB)


def allocatable_of(row):
    return {**advertised(*cards_of(row)), "cpu": f"{row['cpu_milli']}m",
            "memory": str(int(row["memory_mib"]) * MIB), "pods": "1000"}


def pod_of(row, number, **spec):
    """The pod as the so-many-th arrival."""
    requests = {"cpu": f"{row['cpu_milli']}m", "memory": str(int(row["memory_mib"]) * MIB)}
    if int(row["num_gpu"]) > 0:
        requests.update({CORE: demand(row) // 10, RATIO: demand(row) // 10})
    return pod(f"arrival-{number:05}", requests, **spec)
