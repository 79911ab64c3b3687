# SPDX-License-Identifier: Apache-2.0
"""A daemon that follows a fake API server, and whether the two agree."""
import json

from support import ALLOCATED, Daemon, wait_until

CORE = "koordinator.sh/gpu-core"
LEASE = "deviceshare-extender"

# T and D of a binding: what a successor of a killed process waits, and the janitor before it gives
# a lost binding up.
BIND_SECONDS, DELIVERY_SECONDS = 1, 0.5
LEASE_SECONDS = 4
TIMES = f"""bind:
  timeout: {BIND_SECONDS}s
  delivery: {int(DELIVERY_SECONDS * 1000)}ms
leaderElection:
  leaseDuration: {LEASE_SECONDS}s
  renewDeadline: 3s
  retryPeriod: 200ms
"""


class Follower(Daemon):
    """deviceshare-extender with --kubeconfig. Objects are the fake's, verbs are the daemon's."""

    def __init__(self, directory, api, kubeconfig, config=TIMES):
        super().__init__(directory, (), config)
        self.api = api
        self.flags = ["--config", str(self.config_path), "--port", "0",
                      "--kubeconfig", str(kubeconfig)]

    def readiness(self):
        """Status and text of the probe."""
        answer = self.get("/readyz")
        return answer.status, answer.body.decode()

    def wait_ready(self):
        wait_until(lambda: self.readiness()[0] == 200, "the daemon is ready")
        return self

    def bindings_open(self):
        """How often bindings of this process began to be let out."""
        return self.log().count('"Bindings may go out"')

    def wait_open(self):
        """Ready, a bind would be sent, and after the list that came before it all is watched again."""
        before = self.log().count('"Listening"')
        wait_until(lambda: self.bindings_open() >= before, "bindings may go out")
        wait_until(lambda: self.api.follows("Node", "Device", "Pod"), "all is watched")
        return self.wait_ready()

    def kill(self):
        """kill -9."""
        self.may_fail = True
        self.process.kill()
        self.process.wait()

    # -- what is where --

    def pod(self, name, namespace="default"):
        return self.api.get("Pod", name, namespace)

    def booked(self):
        """uid -> (node, percent of core by card, state) of every pod that holds cards."""
        return {pod["uid"]: (node["name"],
                             {share["minor"]: share["amount"][CORE] for share in pod["shares"]},
                             pod["state"])
                for node in self.cache()["nodes"] for pod in node["pods"]}

    def knows(self, *uids):
        """Wait until these pods, bound or not, are in the cache."""
        def known():
            return self.cache()["counts"]["pods"] >= len(uids)
        wait_until(known, f"the daemon knows {len(uids)} pods")


def allocations(api):
    """uid -> (node, percent of core by card, "bound") by the API server's own objects, and no card
    given away twice."""
    found, used = {}, {}
    for pod in api.all("Pod"):
        place = pod["spec"].get("nodeName")
        if not place or pod["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        text = pod["metadata"].get("annotations", {}).get(ALLOCATED, "{}")
        shares = {share["minor"]: int(share["resources"][CORE])
                  for share in json.loads(text).get("gpu", [])}
        found[pod["metadata"]["uid"]] = (place, shares, "bound")
        for minor, percent in shares.items():
            used[place, minor] = used.get((place, minor), 0) + percent
    assert all(percent <= 100 for percent in used.values()), f"a card is given away twice: {used}"
    return found


def check(api, daemon):
    """In the end daemon and API server say the same, nothing is doubled and nothing drifted."""
    wait_until(lambda: daemon.booked() == allocations(api) or None,
               "the daemon books what the API server has")
    cache = daemon.cache()
    assert cache["counts"]["closedNodes"] == 0, cache
    assert not any(pod["drifted"] for node in cache["nodes"] for pod in node["pods"]), cache
