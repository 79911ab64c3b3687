#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy.py BUILD: the files under deploy/ agree with each other and with the daemon.

Whether Kubernetes takes them is for `make e2e` to say (tests/e2e/test_deploy.py, test_guide.py).
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

DEPLOY = pathlib.Path("deploy")
BASE = DEPLOY / "base"
CONFIG = BASE / "extender.yaml"
SCHEDULER_CONFIG = "KubeSchedulerConfiguration"
KUSTOMIZATION = "kustomization.yaml"
bad = 0


def fail(path, text):
    global bad
    bad += 1
    print(f"{path}: {text}")


def expect(path, what, found, wanted):
    if found != wanted:
        fail(path, f"{what} is {found!r}, not {wanted!r}")


# ---- reading ----

class Loader(yaml.SafeLoader):
    """As PyYAML, but a key that stands twice is an error, as it is to Kubernetes' strict readers."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.YAMLError(f"line {key.start_mark.line + 1}: {key.value} stands twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_all():
    """{path: documents} of every YAML file."""
    files = {}
    for path in sorted(DEPLOY.rglob("*.yaml")):
        try:
            files[path] = list(yaml.load_all(path.read_text(), Loader))
        except yaml.YAMLError as error:
            fail(path, error)
    return files


def objects(files, kind, below=DEPLOY):
    """(path, object) of this kind below a folder."""
    return [(path, document) for path, documents in files.items() if below in path.parents
            for document in documents if isinstance(document, dict) and document.get("kind") == kind]


def one(files, kind, name, below=DEPLOY):
    found = [pair for pair in objects(files, kind, below) if pair[1]["metadata"]["name"] == name]
    if len(found) != 1:
        fail(below, f"there are {len(found)} of {kind} {name}, not one")
        return below, None
    return found[0]


def source(path, pattern):
    """What the group of a pattern holds in a source file."""
    found = re.search(pattern, pathlib.Path(path).read_text())
    if found is None:
        fail(path, f"lacks {pattern}, which this check reads")
    return found[1] if found else None


def at(value, *keys):
    """A value deep inside; None where there is none."""
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


# ---- kustomizations ----

def check_kustomizations(files):
    used = set()
    for path in DEPLOY.rglob(KUSTOMIZATION):
        content = at(files, path, 0) or {}
        names = [*content.get("resources", []), *content.get("components", [])]
        for generator in content.get("configMapGenerator", []):
            names += [name.partition("=")[2] or name for name in generator["files"]]
        for name in names:
            target = path.parent / name
            if target.is_dir():
                target = target / KUSTOMIZATION
            if not target.exists():
                fail(path, f"{name} does not exist")
            used.add(target.resolve())
    # What is no part of a kustomization is for other hands: static Pods, kubeadm, users' choices.
    alone = {"kube-scheduler", "crd"}
    for path, documents in files.items():
        by_hand = (path.parent.name in alone or path.name.endswith("+json.yaml") or
                   at(documents, 0, "kind") in (SCHEDULER_CONFIG, "Kustomization", "Component"))
        if not by_hand and path.resolve() not in used:
            fail(path, "no kustomization names it")


def check_generated_names(files):
    """kustomize writes the hash of a generated ConfigMap into every reference by its name, and takes a
    role's resourceNames for that, whatever their resources are."""
    generated = {generator["name"]: path for path in DEPLOY.rglob(KUSTOMIZATION)
                 for generator in (at(files, path, 0) or {}).get("configMapGenerator", [])}
    for kind in ("Role", "ClusterRole"):
        for path, role in objects(files, kind):
            for name in [name for rule in role["rules"] for name in rule.get("resourceNames", [])]:
                if name in generated:
                    fail(path, f"{name} among resourceNames would get the hash of the ConfigMap of that "
                         f"name, which {generated[name]} generates")


# ---- the daemon's configuration ----

def check_config(program):
    done = subprocess.run([program, "--validate-config", "--config", CONFIG], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    if done.returncode != 0:
        fail(CONFIG, done.stderr.strip())


# ---- rights ----

def rights(rules):
    return {(group, resource, verb) for rule in rules for group in rule["apiGroups"]
            for resource in rule["resources"] for verb in rule["verbs"]}


def check_rights(files):
    """The roles are the table that the daemon asks about at its start."""
    table = pathlib.Path("src/kube/rights.c")
    rows = re.findall(r'\{"(\w+)",\s*"([^"]*)",\s*"(\w+)",\s*(?:NULL|"(\w+)"),\s*FOR_(\w+),'
                      r'\s*(true|false)\}', table.read_text())
    if not rows:
        fail(table, "its table cannot be read by this check")
    wanted = {"cluster": set(), "wake": set(), "labels": set(), "namespace": set()}
    parts = {"WAKING": "wake", "NAMESPACES": "labels"}
    for verb, group, resource, subresource, purpose, own in rows:
        role = "namespace" if own == "true" else parts.get(purpose, "cluster")
        name = f"{resource}/{subresource}" if subresource else resource
        wanted[role].add((group, name, verb))
    for role, kind, name in (("cluster", "ClusterRole", "deviceshare-extender"),
                             ("wake", "ClusterRole", "deviceshare-extender-wake"),
                             ("labels", "ClusterRole", "deviceshare-extender-namespace-labels"),
                             ("namespace", "Role", "deviceshare-extender")):
        path, found = one(files, kind, name)
        granted = rights(at(found, "rules") or [])
        for right in sorted(granted - wanted[role]):
            fail(path, f"{kind} {name} grants {right}, which the daemon does not ask for")
        for right in sorted(wanted[role] - granted):
            fail(path, f"{kind} {name} lacks {right}")
        binding_path, binding = one(files, kind + "Binding", name)
        expect(binding_path, "the role", at(binding, "roleRef", "name"), name)
        expect(binding_path, "the subjects", at(binding, "subjects"),
               [{"kind": "ServiceAccount", "name": "deviceshare-extender",
                 "namespace": "deviceshare-system"}])


# ---- workloads ----

def check_security(path, deployment):
    pod = at(deployment, "spec", "template", "spec")
    expect(path, "runAsNonRoot", at(pod, "securityContext", "runAsNonRoot"), True)
    expect(path, "the seccomp profile", at(pod, "securityContext", "seccompProfile", "type"),
           "RuntimeDefault")
    if not at(pod, "securityContext", "runAsUser"):
        fail(path, "runAsUser is root or not said")
    for host in ("hostNetwork", "hostPID", "hostIPC"):
        expect(path, host, pod.get(host, False), False)
    for container in pod["containers"]:
        context = container["securityContext"]
        expect(path, "allowPrivilegeEscalation", at(context, "allowPrivilegeEscalation"), False)
        expect(path, "readOnlyRootFilesystem", at(context, "readOnlyRootFilesystem"), True)
        expect(path, "capabilities", at(context, "capabilities"), {"drop": ["ALL"]})
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe not in container:
                fail(path, f"{container['name']} has no {probe}")
        if not at(container, "resources", "requests"):
            fail(path, f"{container['name']} requests no resources")


def seconds(text):
    """Of a Go duration that is whole seconds."""
    return int(re.fullmatch(r"(\d+)s", text)[1])


def check_extender(files):
    """What the Deployment, the Services and the configuration have to agree on."""
    path, deployment = one(files, "Deployment", "deviceshare-extender")
    config = at(files, CONFIG, 0)
    pod = at(deployment, "spec", "template", "spec")
    container = at(pod, "containers", 0)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    expect(path, "port extender", ports["extender"], at(config, "server", "port"))
    expect(path, "port health", ports["health"], at(config, "health", "port"))
    expect(path, "the image", container["image"],
           "deviceshare-extender:" + source("Makefile", r"(?m)^VERSION\s*:=\s*(\S+)"))
    if pod["terminationGracePeriodSeconds"] <= seconds(at(config, "server", "drainTimeout")):
        fail(path, "terminationGracePeriodSeconds is not longer than server.drainTimeout")
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    tls = at(config, "server", "tls")
    for name in [value for key, value in tls.items() if key.endswith("File")]:
        if str(pathlib.Path(name).parent) not in mounts:
            fail(CONFIG, f"{name} is in no volume of {path}")

    # Labels that the daemon itself goes by.
    header = "include/kube/own_pod.h"
    component = source(header, r'OWN_POD_COMPONENT_LABEL\s+"([^"]+)"')
    value = source(header, r'OWN_POD_COMPONENT\s+"([^"]+)"')
    leader = source(header, r'OWN_POD_LEADER_LABEL\s+"([^"]+)"')
    expect(path, "the Pods' labels", at(deployment, "spec", "template", "metadata", "labels"),
           {component: value})
    path, service = one(files, "Service", "deviceshare-extender")
    expect(path, "the selector", at(service, "spec", "selector"), {component: value, leader: "true"})
    expect(path, "the port", at(service, "spec", "ports", 0, "port"), ports["extender"])
    path, service = one(files, "Service", "deviceshare-extender-metrics")
    expect(path, "the port", at(service, "spec", "ports", 0, "port"), ports["health"])
    return at(one(files, "Service", "deviceshare-extender")[1], "spec", "clusterIP"), ports["extender"]


# ---- kube-scheduler's configuration ----

REQUIRED = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt",
            "bindVerb": "bind", "nodeCacheCapable": True}
HOW_REACHED = ("urlPrefix", "enableHTTPS", "tlsConfig")


def check_scheduler_configs(files, address, port):
    known = set(re.findall(r'"([a-z.]+/[a-z.-]+)"', pathlib.Path("src/core/request.c").read_text()))
    forms = {}
    for path, document in objects(files, SCHEDULER_CONFIG):
        expect(path, "the number of extenders", len(document["extenders"]), 1)
        extender = document["extenders"][0]
        for key, value in REQUIRED.items():
            expect(path, key, extender.get(key), value)
        for key in ("weight", "httpTimeout", "managedResources"):
            if not extender.get(key):
                fail(path, f"{key} is missing")
        # With it kube-scheduler binds pods without cards, see the contract in docs/guide.md.
        if "ignorable" in extender:
            fail(path, "ignorable must not be there")
        if "percentageOfNodesToScore" in document:
            fail(path, "percentageOfNodesToScore belongs to the profile of device pods alone")
        profiles = {profile["schedulerName"]: profile for profile in document["profiles"]}
        expect(path, "percentageOfNodesToScore of deviceshare",
               at(profiles, "deviceshare", "percentageOfNodesToScore"), 100)
        for resource in extender["managedResources"]:
            if resource["name"] not in known:
                fail(path, f"{resource['name']} is unknown to src/core/request.c")
            expect(path, f"ignoredByScheduler of {resource['name']}",
                   resource["ignoredByScheduler"],
                   path.name == "not-advertised.yaml" or resource["name"].startswith("nvidia.com/"))
        if extender["urlPrefix"].startswith("https:"):
            expect(path, "enableHTTPS", extender.get("enableHTTPS"), True)
            expect(path, "the keys of tlsConfig", sorted(extender.get("tlsConfig", {})),
                   ["caFile", "certFile", "keyFile", "serverName"])
        if path.parent.parent.name == "overlays":
            expect(path, "urlPrefix", extender["urlPrefix"], f"https://{address}:{port}")
        # The same but for how the extender is reached.
        rest = {key: value for key, value in extender.items() if key not in HOW_REACHED}
        first, same = forms.setdefault(path.name, (path, rest))
        if rest != same:
            fail(path, f"its extender differs from that in {first}")
    if len(forms) != 2:
        fail(DEPLOY, "kube-scheduler's configuration is there in other than two forms")


# ---- certificates ----

def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, check=False)


def check_certificates(files, address):
    script = DEPLOY / "certs" / "make-certs.sh"

    def make(*flags):
        done = subprocess.run([script, *flags, folder], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            fail(script, done.stderr)
        return [line.split(",")[0] for line in done.stdout.splitlines()]

    with tempfile.TemporaryDirectory() as folder:
        expect(script, "a first run", make(), ["ca.crt: made", "server.crt: made",
                                               "scheduler.crt: made", "secrets.yaml: written"])
        expect(script, "a second run", make(), ["ca.crt: kept", "server.crt: kept",
                                                "scheduler.crt: kept", "secrets.yaml: written"])
        ca = f"{folder}/ca.crt"
        for path, document in objects(files, SCHEDULER_CONFIG, DEPLOY / "overlays"):
            host = at(document, "extenders", 0, "tlsConfig", "serverName")
            done = openssl("verify", "-CAfile", ca, "-purpose", "sslserver", "-verify_hostname",
                           host, "-verify_ip", address, f"{folder}/server.crt")
            if done.returncode != 0:
                fail(path, f"the certificate is not for {host} and {address}: {done.stderr}")
        for cert, purpose, good in (("scheduler", "sslclient", True), ("server", "sslclient", False),
                                    ("scheduler", "sslserver", False)):
            done = openssl("verify", "-CAfile", ca, "-purpose", purpose, f"{folder}/{cert}.crt")
            if (done.returncode == 0) != good:
                fail(script, f"{cert}.crt as {purpose}: {done.stdout}{done.stderr}")
        subject = openssl("x509", "-in", f"{folder}/scheduler.crt", "-noout", "-subject",
                          "-nameopt", "RFC2253").stdout.strip()
        expect(CONFIG, "server.tls.allowedClients",
               at(files, CONFIG, 0, "server", "tls", "allowedClients"),
               [subject.removeprefix("subject=CN=")])
        expect(script, "a run for another address", make("-i", "192.0.2.1")[1:3],
               ["server.crt: made", "scheduler.crt: kept"])
        secrets = {secret["metadata"]["name"]: secret for secret in
                   yaml.load_all(pathlib.Path(folder, "secrets.yaml").read_text(), Loader)}
    for path, deployment in objects(files, "Deployment"):
        for volume in at(deployment, "spec", "template", "spec", "volumes"):
            name = at(volume, "secret", "secretName")
            if name and sorted(at(secrets, name, "data") or {}) != ["ca.crt", "tls.crt", "tls.key"]:
                fail(path, f"{script} writes no Secret {name} of three files")


# ---- admission policy, alerts ----

def check_policy(files):
    path, policy = one(files, "ValidatingAdmissionPolicy", "deviceshare-annotations")
    variables = {variable["name"]: variable["expression"] for variable in policy["spec"]["variables"]}
    wanted = {source("include/codec/requests.h", r'ANNOTATION_WOKEN_AT\s+"([^"]+)"')}
    text = "".join(file.read_text() for folder in ("include/codec", "src/codec", "src/kube")
                   for file in sorted(pathlib.Path(folder).glob("*.[ch]")))
    for name in ("scheduling.koordinator.sh/device-allocated", "deviceshare.io/visible-devices"):
        if f'"{name}"' not in text.replace('\\"', '"'):
            fail(path, f"{name} is no name that the sources know")
        wanted.add(name)
    expect(path, "the guarded annotations", set(re.findall(r"'([^']+)'", variables["guarded"])), wanted)
    expect(path, "who may write", re.findall(r"'([^']+)'", variables["mayWrite"]),
           ["system:serviceaccount:deviceshare-system:deviceshare-extender"])


def metric_names():
    """{name: label values} of all families."""
    text = pathlib.Path("include/base/metrics.h").read_text()
    text = re.sub(r"\\\n", " ", text)
    families = {}
    for kind, body in re.findall(r"#define METRIC_(COUNTERS|HISTOGRAMS)\(X\)(.*)", text):
        for name, values in re.findall(r'X\(\w+,\s*"(\w+)",\s*(?:"[^"]*",\s*){2}"([^"]*)"\)', body):
            for suffix in [""] if kind == "COUNTERS" else ["_bucket", "_sum", "_count"]:
                families[name + suffix] = set(values.split("|"))
    gauges = pathlib.Path("src/http/metrics.c").read_text()
    families.update((name, set()) for name in re.findall(r'"(device\w+)"', gauges))
    return families


def check_alerts(files):
    path, rules = one(files, "PrometheusRule", "deviceshare-extender")
    known = metric_names()
    troubleshooting = pathlib.Path("docs/troubleshooting.md")
    for rule in [rule for group in rules["spec"]["groups"] for rule in group["rules"]]:
        for name, selector in re.findall(r"\b((?:scheduler_)?device\w+)\b(?!-)(?:\{([^}]*)\})?",
                                         re.sub(r'job="[^"]*"', "", rule["expr"])):
            if name not in known:
                fail(path, f"{rule['alert']}: there is no metric {name}")
            for value in re.findall(r'="([^"]*)"', selector):
                if value not in known.get(name, ()):
                    fail(path, f"{rule['alert']}: {name} has no value {value}")
        for title in re.findall(r'docs/troubleshooting\.md, "([^"]+)"', str(rule["annotations"])):
            if troubleshooting.exists() and f"## {title}\n" not in troubleshooting.read_text():
                fail(path, f"{rule['alert']}: {troubleshooting} has no section {title}")


# ---- the image ----

def check_dockerfile():
    path = DEPLOY / "Dockerfile"
    ignore = DEPLOY / "Dockerfile.dockerignore"
    allowed = [line[1:] for line in ignore.read_text().splitlines() if line.startswith("!")]
    text = re.sub(r"\\\n", " ", path.read_text())
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M):
        for name in line.split()[:-1]:
            name = name.rstrip("/")
            if not pathlib.Path(name).exists():
                fail(path, f"COPY: there is no {name}")
            if not any(name == entry or name.startswith(entry + "/") for entry in allowed):
                fail(path, f"COPY: {ignore} keeps {name} away")
    users = re.findall(r"^USER (.*)$", text, re.M)
    pod = "runAsUser: " + (users[-1].split(":")[0] if users else "?")
    if pod not in (BASE / "deployment.yaml").read_text():
        fail(path, f"deployment.yaml lacks {pod}")


def main():
    program = pathlib.Path(sys.argv[1]) / "deviceshare-extender"
    files = read_all()
    if bad:
        sys.exit(1)
    check_kustomizations(files)
    check_generated_names(files)
    check_config(program)
    check_rights(files)
    for path, deployment in objects(files, "Deployment"):
        check_security(path, deployment)
    address, port = check_extender(files)
    check_scheduler_configs(files, address, port)
    check_certificates(files, address)
    check_policy(files)
    check_alerts(files)
    check_dockerfile()
    sys.exit(bad > 0)


main()
