# SPDX-License-Identifier: Apache-2.0
"""Calls of the extender's verbs: what kube-scheduler sends, or somebody who pretends to be it."""
import json
import ssl
import urllib.error
import urllib.request

from .process import PATIENCE


class Caller:
    """A client of the verbs at `url`. With a CA it speaks HTTPS, with cert and key it shows them."""

    def __init__(self, url, ca=None, cert=None, key=None):
        self.url = url
        handlers = [urllib.request.ProxyHandler({})]
        if ca:
            context = ssl.create_default_context(cafile=str(ca))
            if cert:
                context.load_cert_chain(str(cert), str(key))
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self.opener = urllib.request.build_opener(*handlers)

    def post(self, verb, body):
        """Status and decoded body of the answer; its text if it is no JSON."""
        request = urllib.request.Request(f"{self.url}/{verb}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with self.opener.open(request, timeout=PATIENCE) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            status, text = refused.code, refused.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def filter(self, pod, *nodes):
        """The answer about a pod as the API server holds it, or as somebody says it is."""
        status, answer = self.post("filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
        assert status == 200, (status, answer)
        return answer

    def bind(self, pod, node, **changes):
        """The Error of the answer, "" if it is bound."""
        status, answer = self.post("bind", bind_body(pod, node, **changes))
        assert status == 200, (status, answer)
        return answer["Error"]


def bind_body(pod, node, **changes):
    metadata = pod["metadata"]
    return {"PodName": metadata["name"], "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"], "Node": node, **changes}
