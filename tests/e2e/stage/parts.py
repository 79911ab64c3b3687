# SPDX-License-Identifier: Apache-2.0
"""Where the control plane's binaries are; parts/build.sh puts them there."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
PARTS = ROOT / "tests" / "e2e" / "parts"
BUILD = (ROOT / os.environ.get("DEVICESHARE_BUILD", "build")).resolve()

K8S_VERSION = os.environ.get("K8S_VERSION") or (PARTS / "default-version").read_text().strip()


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("DEVICESHARE_E2E_CACHE") or
                        pathlib.Path(base) / "deviceshare-e2e")


def binary(name):
    """The path of one part; of etcd there is one version, of the others the chosen one."""
    module = next(PARTS.glob("etcd-*")).name if name == "etcd" else f"k8s-{K8S_VERSION}"
    path = cache() / module / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: make e2e-parts K8S_VERSION={K8S_VERSION}")
    return str(path)
