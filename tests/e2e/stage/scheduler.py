# SPDX-License-Identifier: Apache-2.0
"""kube-scheduler configurations: the files that deploy/ ships, with what is "yours" filled in."""
import re

from .parts import ROOT

FORMS = ("advertised", "not-advertised")


def _set(text, key, value):
    changed, count = re.subn(rf"^(\s*(?:- )?{key}: ).*$", rf"\g<1>{value}", text, flags=re.M)
    assert count == 1, f"{key} stands {count} times in the shipped configuration"
    return changed


def shipped(form, kubeconfig, url):
    """The shipped configuration of one form for this stage; only one scheduler runs here."""
    text = (ROOT / "deploy" / "kube-scheduler" / f"{form}.yaml").read_text()
    text = _set(text, "kubeconfig", kubeconfig)
    text = _set(text, "leaderElect", "false")
    return _set(text, "urlPrefix", url)


def over_https(text, **files):
    """The shipped keys of HTTPS, which are comments there, taken into use; `files` are those of
    tlsConfig that lie elsewhere here, or its serverName."""
    changed, count = re.subn(r"^  # ((enableHTTPS|tlsConfig|  [a-z]+(Name|File)):.*)$", r"  \1", text,
                             flags=re.M)
    assert count == 6, f"{count} keys of HTTPS are comments in the shipped configuration"
    for key, value in files.items():
        changed = _set(changed, key, value)
    return changed


def asked_about_all(text):
    """Pods without devices come to the extender, too: no managedResources."""
    changed, count = re.subn(r"^  managedResources:\n(  (- |  |#).*\n)+", "", text, flags=re.M)
    assert count == 1 and "managedResources:" not in changed
    return changed


def without_bind(text):
    """kube-scheduler's own binder binds; the extender only filters and scores."""
    changed, count = re.subn(r"^  bindVerb: .*\n", "", text, flags=re.M)
    assert count == 1
    return changed


def plain(kubeconfig):
    """No extender at all."""
    return (f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"clientConnection:\n  kubeconfig: {kubeconfig}\n"
            f"leaderElection:\n  leaderElect: false\n")
