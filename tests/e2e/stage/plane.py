# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes control plane on loopback: no kubelet, no network, and of the controllers only
those a story asks for."""
import collections
import json
import pathlib
import shutil

from . import parts
from .api import Api
from .pki import Authority, signing_key
from .process import NotYet, Process, free_port, wait_until

# What the parts do at their own pace: every write to pods, nodes and leases, by whom.
_AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
"""

_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters:
- name: stage
  cluster:
    server: {server}
    certificate-authority: {ca}
users:
- name: user
  user:
{credentials}
contexts:
- name: stage
  context:
    cluster: stage
    user: user
    namespace: {namespace}
current-context: stage
"""

AuditEntry = collections.namedtuple("AuditEntry", "user verb resource subresource namespace name "
                                                  "status uri")


class ControlPlane:
    """etcd and kube-apiserver, with kube-scheduler and kube-controller-manager on demand."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(self.directory / "pki", "stage")
        self.port = free_port()
        self.processes = []
        self.etcd = self._etcd()
        self.apiserver = self._apiserver()
        self.admin = Api(self.port, self.authority.cert,
                         *self.authority.issue("admin", "system:masters"))

    # ---- processes ----

    def process(self, name, program, *flags, env=None):
        """A process of this stage; started by the caller, stopped at the latest with the stage."""
        made = Process(name, [program, *flags], self.directory / f"{name}.log", env)
        self.processes.append(made)
        return made

    def _etcd(self):
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        peers = f"http://127.0.0.1:{free_port()}"
        return self.process(
            "etcd", parts.binary("etcd"), "--data-dir", self.directory / "etcd",
            "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"default={peers}",
            # The machine may crash; then there is nothing left to recover for.
            "--unsafe-no-fsync", "--log-level", "warn")

    def _apiserver(self):
        cert, key = self.authority.issue("kube-apiserver", names=["IP:127.0.0.1", "DNS:localhost"])
        tokens = signing_key(self.directory / "pki" / "service-accounts.key")
        policy = self.directory / "audit-policy.yaml"
        policy.write_text(_AUDIT_POLICY)
        self.audit_path = self.directory / "audit.log"
        return self.process(
            "kube-apiserver", parts.binary("kube-apiserver"),
            "--etcd-servers", self.etcd_url,
            "--bind-address", "127.0.0.1", "--secure-port", self.port,
            "--tls-cert-file", cert, "--tls-private-key-file", key,
            "--client-ca-file", self.authority.cert,
            "--authorization-mode", "RBAC",
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-key-file", tokens, "--service-account-signing-key-file", tokens,
            "--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none",
            # Without a controller-manager no namespace gets its service account, and no node
            # would ever lose the not-ready taint.
            "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition",
            "--audit-policy-file", policy, "--audit-log-path", self.audit_path)

    def start(self):
        self.etcd.start()
        self.apiserver.start()
        self.wait_ready()
        return self

    def wait_ready(self):
        """Until the API server serves, and has made what every cluster has."""
        wait_until(self.admin.polling(self._ready), "kube-apiserver is ready", every=0.1)

    def _ready(self):
        self.etcd.check_alive()
        self.apiserver.check_alive()
        status, text = self.admin.raw("GET", "/readyz")
        if status != 200:
            raise NotYet(text)
        return self.admin.find("/api/v1/namespaces/default")

    def stop(self):
        """End everything, the last started first."""
        for process in reversed(self.processes):
            # An API server without clients has nothing to drain that would be missed.
            process.stop(5 if process is self.apiserver else 20)
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def end(self, process):
        """Stop a process for good; its exit status."""
        self.processes.remove(process)
        return process.stop()

    # ---- users ----

    @property
    def server(self):
        return f"https://127.0.0.1:{self.port}"

    def _write_kubeconfig(self, name, namespace, **credentials):
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(_KUBECONFIG.format(
            server=self.server, ca=self.authority.cert, namespace=namespace,
            credentials="\n".join(f"    {key}: {value}" for key, value in credentials.items())))
        path.chmod(0o600)
        return path

    def certificate_kubeconfig(self, user, group=None, namespace="default"):
        """A kubeconfig for a user known by certificate."""
        cert, key = self.authority.issue(user, group)
        return self._write_kubeconfig(user.replace(":", "-"), namespace,
                                      **{"client-certificate": cert, "client-key": key})

    def service_account_token(self, namespace, name, seconds=3600):
        """A token as a projected volume would hold it; the ServiceAccount must exist."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.admin("POST", path, {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds}})
        return answer["status"]["token"]

    def service_account(self, namespace, name):
        """The API as this service account sees it."""
        return Api(self.port, self.authority.cert,
                   token=self.service_account_token(namespace, name))

    def service_account_kubeconfig(self, namespace, name):
        """A kubeconfig that names a token file, which a story may rewrite."""
        token = self.directory / f"{namespace}-{name}.token"
        token.write_text(self.service_account_token(namespace, name))
        return self._write_kubeconfig(f"{namespace}-{name}", namespace, tokenFile=token)

    # ---- the other parts ----

    def _serve_metrics(self):
        port = free_port()
        # Probes and metrics without asking the API server who may read them.
        return port, ["--secure-port", port, "--bind-address", "127.0.0.1",
                      "--authentication-skip-lookup",
                      "--authorization-always-allow-paths=/metrics,/healthz,/livez,/readyz"]

    def scheduler(self, config, name="kube-scheduler"):
        """Start a kube-scheduler with this configuration (text) and wait until it schedules."""
        path = self.directory / f"{name}.yaml"
        path.write_text(config)
        port, serving = self._serve_metrics()
        process = self.process(name, parts.binary("kube-scheduler"), "--config", path, "-v", "3",
                               *serving)
        process.start()
        self._wait_healthz(process, port)
        return process

    def scheduler_kubeconfig(self):
        return self.certificate_kubeconfig("system:kube-scheduler")

    def controller_manager(self, *controllers):
        """Start a kube-controller-manager with only these controllers."""
        kubeconfig = self.certificate_kubeconfig("kube-controller-manager", "system:masters")
        port, serving = self._serve_metrics()
        process = self.process(
            "kube-controller-manager", parts.binary("kube-controller-manager"),
            "--kubeconfig", kubeconfig, "--controllers", ",".join(controllers),
            "--leader-elect=false", *serving)
        process.start()
        self._wait_healthz(process, port)
        return process

    def _wait_healthz(self, process, port):
        # Its certificate is its own; only loopback speaks here.
        api = Api(port, self.authority.cert)
        api.context.check_hostname = False
        api.context.verify_mode = 0

        def healthy():
            process.check_alive()
            status, text = api.raw("GET", "/healthz")
            return status == 200 and text == "ok"
        wait_until(healthy, f"{process.name} is healthy", every=0.1)

    # ---- the audit log ----

    def audit_mark(self):
        """A place in the audit log, for audit(since=...)."""
        return self.audit_path.stat().st_size if self.audit_path.exists() else 0

    def audit(self, since=0, **fields):
        """The writes since a mark whose fields have these values, such as resource="pods"."""
        entries = []
        with open(self.audit_path, "rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                event = json.loads(line)
                target = event.get("objectRef", {})
                entry = AuditEntry(
                    event["user"].get("username"), event["verb"], target.get("resource"),
                    target.get("subresource"), target.get("namespace"), target.get("name"),
                    event.get("responseStatus", {}).get("code"), event["requestURI"])
                if all(getattr(entry, name) == value for name, value in fields.items()):
                    entries.append(entry)
        return entries
