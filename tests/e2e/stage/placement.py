# SPDX-License-Identifier: Apache-2.0
"""Where pods wish to go, and where they went."""
import collections

from .checker import judge


def wish(item, node, device, strength="require"):
    """The pod with a policy for each axis."""
    item["metadata"]["annotations"] = {"deviceshare.io/node-policy": node,
                                       "deviceshare.io/device-policy": device,
                                       "deviceshare.io/node-policy-strength": strength}
    return item


def places(api):
    """{node: [pods on each card that has some]}, the fullest card first, from what the API server
    holds."""
    tenants = collections.defaultdict(list)
    for card, pods in judge(api).tenants.items():
        tenants[card.node].append(len(pods))
    return {node: sorted(counts, reverse=True) for node, counts in tenants.items()}
