# SPDX-License-Identifier: Apache-2.0
"""What deploy/ ships, running: a stand-in for the kubelets of all nodes and for kube-proxy. It reads the
Pods that Kubernetes' own controllers made of the shipped Deployments, and does what they say: image,
arguments, environment, volumes, ports, probes and account are theirs.

Without containers and networks, each Pod has an address on loopback of its own, on which its ports are
free, and its volumes lie in a folder; names of both in files and arguments are replaced. An API server
takes no loopback address for a Pod, so it is told another one. Where programs may have mounts of their own,
they find their account where kubelet would have put it."""
import base64
import functools
import http.client
import os
import random
import ssl
import subprocess

from .api import STRATEGIC
from .parts import BUILD, binary
from .process import NotYet
from .replica import Forwarder

_PROGRAMS = {"deviceshare-extender": lambda: BUILD / "deviceshare-extender",
             "kube-scheduler": lambda: binary("kube-scheduler")}
# What kubelet mounts into each Pod, at the place where programs look for it.
_WITH_ACCOUNT = """mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io &&
ln -s "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@" """


@functools.cache
def _private_mounts():
    """The command that gives a program mounts of its own; None where that is not permitted."""
    command = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        print("no private mounts here: Pods get a kubeconfig instead of their account's folder")
        return None
    return command


class Node:
    """Runs the Pods of a namespace, and leads whoever connects to a Service to its endpoints. It does
    nothing by itself: a story calls sync(), often."""

    def __init__(self, plane, namespace, directory, service, cluster_ip):
        self.plane, self.namespace, self.directory = plane, namespace, directory
        self.path = f"/api/v1/namespaces/{namespace}"
        self.service, self.cluster_ip = service, cluster_ip
        self.net = f"127.{random.randrange(16, 250)}.{random.randrange(250)}"
        self.processes, self.addresses, self.told = {}, {}, {}
        self.proxy = Forwarder(self._endpoint, (f"{self.net}.1", 9443))

    def stop(self):
        for process in self.processes.values():
            self.plane.end(process)
        self.processes.clear()
        self.proxy.stop()

    def sync(self):
        pods = {pod["metadata"]["name"]: pod for pod in self.plane.admin.list(self.path + "/pods")}
        for name in self.processes.keys() - pods.keys():
            self._end(name)
        for name, pod in pods.items():
            if pod["metadata"].get("deletionTimestamp"):
                self._end(name)
                self.plane.admin.delete(f"{self.path}/pods/{name}", grace=0)
            elif pod["spec"].get("nodeName"):
                self._run(name, pod)

    # ---- one Pod ----

    def _run(self, name, pod):
        container, = pod["spec"]["containers"]
        if name not in self.processes:
            number = len(self.addresses) + 2
            self.addresses.setdefault(name, (f"10.244.0.{number}", f"{self.net}.{number}"))
            process = self._process(name, pod, container)
            if process is None:
                return # a volume's object is not there yet
            self.processes[name] = process.start()
        self.processes[name].check_alive()
        ready = self._probe(name, container, container["readinessProbe"]["httpGet"])
        if self.told.get(name) != ready:
            self.told[name] = ready
            told = self.addresses[name][0]
            self.plane.admin.patch(f"{self.path}/pods/{name}/status", {"status": {
                "phase": "Running", "podIP": told, "podIPs": [{"ip": told}],
                "conditions": [{"type": kind, "status": str(ready)}
                               for kind in ("Ready", "ContainersReady")]}}, STRATEGIC)

    def _end(self, name):
        process = self.processes.pop(name, None)
        self.told.pop(name, None)
        if process is not None:
            self.plane.end(process)

    def _process(self, name, pod, container):
        image = container["image"].rpartition("/")[2].partition(":")[0]
        mounts = self._mount(name, pod["spec"], container)
        if mounts is None:
            return None
        program = [_PROGRAMS[image](), *(self._here(name, mounts, argument)
                                         for argument in container["args"])]
        env = {variable["name"]: _field(pod, variable["valueFrom"]["fieldRef"]["fieldPath"])
               for variable in container.get("env", [])}
        if image == "kube-scheduler":
            program.append(f"--bind-address={self.addresses[name][1]}")
        account = pod["spec"]["serviceAccountName"]
        if _private_mounts():
            env |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1",
                    "KUBERNETES_SERVICE_PORT": str(self.plane.port)}
            program = [*_private_mounts(), "sh", "-c", _WITH_ACCOUNT,
                       self._account_folder(name, account), *program]
        else:
            kubeconfig = self.plane.service_account_kubeconfig(self.namespace, account)
            if image == "kube-scheduler":
                config, = mounts["/etc/deviceshare/config"].iterdir()
                config.write_text(config.read_text()
                                  + f"clientConnection:\n  kubeconfig: {kubeconfig}\n")
            else:
                program.append(f"--kubeconfig={kubeconfig}")
        return self.plane.process(name, *program, env=env)

    def _account_folder(self, name, account):
        folder = self.directory / name / "serviceaccount"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "token").write_text(self.plane.service_account_token(self.namespace, account))
        (folder / "ca.crt").write_text(self.plane.authority.cert.read_text())
        (folder / "namespace").write_text(self.namespace)
        return folder

    def _mount(self, name, spec, container):
        """{mountPath: folder} of the container's volumes, or None while one cannot be mounted."""
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        mounts = {mount["mountPath"]: self.directory / name / mount["name"]
                  for mount in container["volumeMounts"]}
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "secret" in volume:
                found = self.plane.admin.find(f"{self.path}/secrets/{volume['secret']['secretName']}")
            else:
                found = self.plane.admin.find(f"{self.path}/configmaps/{volume['configMap']['name']}")
            if found is None:
                return None
            mounts[mount["mountPath"]].mkdir(parents=True, exist_ok=True)
            for file, text in found["data"].items():
                if "secret" in volume:
                    text = base64.b64decode(text).decode()
                (mounts[mount["mountPath"]] / file).write_text(self._here(name, mounts, text))
        return mounts

    def _here(self, name, mounts, text):
        for path, folder in mounts.items():
            text = text.replace(path, str(folder))
        text = text.replace(f"{self.cluster_ip}:", f"{self.net}.1:")
        return text.replace("address: 0.0.0.0", f"address: {self.addresses[name][1]}")

    def _probe(self, name, container, probe):
        port = next(port["containerPort"] for port in container["ports"]
                    if probe["port"] in (port["name"], port["containerPort"]))
        return self.get(name, port, probe["path"], probe["scheme"])[0] == 200

    def get(self, name, port, path, scheme="HTTP"):
        """Status and text of a GET to a Pod, certificates not looked at, as by a probe. (0, why) if
        nobody answers."""
        address = self.addresses[name][1]
        if scheme == "HTTPS":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(address, port, timeout=5, context=context)
        else:
            connection = http.client.HTTPConnection(address, port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    # ---- the Service ----

    def endpoints(self):
        """[(address here, port)] of the Service's ready endpoints, as its EndpointSlices say."""
        here = dict(self.addresses.values())
        slices = self.plane.admin.list(
            f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices",
            labelSelector=f"kubernetes.io/service-name={self.service}")
        return [(here[address], item["ports"][0]["port"]) for item in slices
                for endpoint in item["endpoints"] or [] if endpoint["conditions"].get("ready")
                for address in endpoint["addresses"]]

    def _endpoint(self):
        found = self.endpoints()
        if not found:
            raise NotYet(f"{self.service} has no endpoints")
        return random.choice(found)


def _field(pod, path):
    value = pod
    for key in path.split("."):
        value = value[key]
    return value
