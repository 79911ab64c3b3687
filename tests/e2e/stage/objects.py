# SPDX-License-Identifier: Apache-2.0
"""Manifests, as a user or an agent would write them."""
GIB = 1 << 30

GPU = "koordinator.sh/gpu"
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
SHARED = "koordinator.sh/gpu.shared"
RDMA = "koordinator.sh/rdma"
FPGA = "koordinator.sh/fpga"
NVIDIA = "nvidia.com/gpu"
HAMI_MEMORY = "nvidia.com/gpumem"
HAMI_PERCENTAGE = "nvidia.com/gpumem-percentage"
HAMI_CORES = "nvidia.com/gpucores"
REGISTER = "hami.io/node-nvidia-register"

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
VISIBLE = "deviceshare.io/visible-devices"

DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"


def gpu(minor, memory=80 * GIB, health=True, **more):
    """One card of a Device."""
    return {"type": "gpu", "minor": minor, "id": f"GPU-{minor:08x}", "health": health,
            "resources": {CORE: "100", MEMORY: str(memory), RATIO: "100"}, **more}


def nic(minor, **more):
    return {"type": "rdma", "minor": minor, "id": f"0000:{minor + 1:02x}:00.0", "health": True,
            "resources": {RDMA: "100"}, **more}


def fpga(minor, **more):
    return {"type": "fpga", "minor": minor, "id": f"0000:{minor + 65:02x}:00.0", "health": True,
            "resources": {FPGA: "100"}, **more}


def gpus(count, memory=80 * GIB):
    return [gpu(minor, memory) for minor in range(count)]


def device(name, *cards):
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
            "metadata": {"name": name}, "spec": {"devices": list(cards)}}


def advertised(*cards):
    """What an agent writes into node.status.allocatable for these cards. Vendors' names are not in
    it: those are their device plugins'."""
    sums = {}
    for card in cards:
        if not card["health"]:
            continue
        for name, value in card["resources"].items():
            sums[name] = sums.get(name, 0) + int(value)
        if card["type"] == "gpu":
            for name in (GPU, SHARED):
                sums[name] = sums.get(name, 0) + 100
    return {name: str(value) for name, value in sums.items()}


def node(name, labels=None, allocatable=None):
    """A Node that is ready and has room; `allocatable` is added to cpu, memory and pods."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "500", **(allocatable or {})}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name,
                                                  **(labels or {})}},
            "status": {"capacity": amounts, "allocatable": amounts,
                       "conditions": [{"type": "Ready", "status": "True",
                                       "reason": "KubeletReady"}]}}


def pod(name, requests=None, **spec):
    """A pod of one container; keyword arguments are further fields of its spec."""
    amounts = {key: str(value) for key, value in (requests or {}).items()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "registry.example/image",
                                     "resources": {"requests": amounts, "limits": amounts}}],
                     # No kubelet runs here that would need it.
                     "terminationGracePeriodSeconds": 0, **spec}}


def percent(core, ratio=None):
    """A share of a card."""
    return {CORE: core, RATIO: core if ratio is None else ratio}
