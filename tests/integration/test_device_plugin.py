# SPDX-License-Identifier: Apache-2.0
"""Nodes on which a vendor's device plugin hands out the GPUs, too."""
import signal

import pytest

from support import device, gpu_node, node, percent, pod, wait_until

REFUSED = "node(s) had gpus that a device plugin hands out"
WHOLE = {"nvidia.com/gpu": "1"}


def plugin_node(name, cards="2"):
    """A Node as kubelet writes it once NVIDIA's plugin has registered."""
    return {**node(name), "status": {"capacity": {"cpu": "8", "nvidia.com/gpu": cards},
                                     "allocatable": {"cpu": "8", "nvidia.com/gpu": cards}}}


@pytest.mark.parametrize("request_", [WHOLE, percent(50)], ids=["whole", "half"])
def test_no_gpu_request_comes_there(start, request_):
    daemon = start([*gpu_node("shared"), plugin_node("plugin"), device("plugin")])
    daemon.apply(pod("p", request_))
    stored = daemon.pod("p")
    assert daemon.filter(stored, ["shared", "plugin"])["NodeNames"] == ["shared"]
    answer = daemon.filter(stored, ["plugin"])
    assert answer["NodeNames"] == [] and answer["FailedNodes"] == {}
    assert answer["FailedAndUnresolvableNodes"] == {"plugin": REFUSED}
    assert daemon.bind(stored, "plugin") == REFUSED
    assert daemon.used_core("plugin") == [0, 0]
    assert daemon.cached_node("plugin")["devicePlugin"] is True
    assert daemon.cached_node("shared")["devicePlugin"] is False

    # The plugin is taken off the node; kubelet goes on naming the resource.
    daemon.apply(plugin_node("plugin", cards="0"))
    assert daemon.filter(stored, ["plugin"])["NodeNames"] == ["plugin"]
    assert daemon.bind(stored, "plugin") == ""


def test_it_can_be_allowed_at_run_time(start):
    daemon = start([plugin_node("n"), device("n"), pod("p", WHOLE)])
    stored = daemon.pod("p")
    assert daemon.filter(stored, ["n"])["FailedAndUnresolvableNodes"] == {"n": REFUSED}
    daemon.write_config("devicePluginNodes: allow\n")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: daemon.filter(stored, ["n"])["NodeNames"] == ["n"], "the reload")
    assert daemon.bind(stored, "n") == ""
    assert daemon.used_core("n") == [100, 0]
