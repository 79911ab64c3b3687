# SPDX-License-Identifier: Apache-2.0
"""Requests to the API server over connections that are kept, one for each thread."""
import http.client
import json
import ssl
import threading
import urllib.parse

from .process import NotYet, PATIENCE

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """An answer other than 2xx; `body` is usually a Status."""

    def __init__(self, method, path, status, body):
        message = body.get("message") if isinstance(body, dict) else body
        super().__init__(f"{method} {path}: {status} {message}")
        self.status, self.body = status, body


class Api:
    """One user's way to the API server: a client certificate or a bearer token."""

    def __init__(self, port, ca, cert=None, key=None, token=None):
        self.port, self.token = port, token
        self.context = ssl.create_default_context(cafile=str(ca))
        if cert:
            self.context.load_cert_chain(str(cert), str(key))
        self.local = threading.local()

    def _connection(self):
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                                     context=self.context)
            self.local.connection = connection
        return connection

    def close(self):
        """Forget this thread's connection."""
        connection = getattr(self.local, "connection", None)
        self.local.connection = None
        if connection:
            connection.close()

    def raw(self, method, path, body=None, content_type="application/json", query=None):
        """Status and body text of one request. It is sent once: a lost connection is the caller's
        to judge, except that an idle one which the server had closed is replaced for a read."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = body if isinstance(body, (str, bytes)) else json.dumps(body)
        for attempt in (1, 2):
            connection = self._connection()
            try:
                connection.request(method, path, body=data, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if method != "GET" or attempt == 2:
                    raise ConnectionError(f"{method} {path}: {error!r}") from error

    def __call__(self, method, path, body=None, **more):
        """The decoded answer to one request; ApiError if it is not 2xx."""
        status, text = self.raw(method, path, body, **more)
        try:
            decoded = json.loads(text)
        except ValueError:
            decoded = text
        if not 200 <= status < 300:
            raise ApiError(method, path, status, decoded)
        return decoded

    def get(self, path, **query):
        return self("GET", path, query=query)

    def find(self, path):
        """The object, or None if it does not exist."""
        try:
            return self("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def patch(self, path, body, content_type=MERGE):
        return self("PATCH", path, body, content_type=content_type)

    def delete(self, path, grace=None):
        """Delete one object; one that is gone is fine."""
        body = None if grace is None else {"gracePeriodSeconds": grace}
        try:
            self("DELETE", path, body)
        except ApiError as error:
            if error.status != 404:
                raise

    def list(self, path, **query):
        """All items, in pages."""
        items, query = [], {"limit": 500, **query}
        while True:
            page = self("GET", path, query=query)
            items += page["items"]
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return items

    def polling(self, function):
        """The function with 'busy' and 'down' answers of the server turned into NotYet."""
        def ask():
            try:
                return function()
            except ApiError as error:
                if error.status == 429 or error.status >= 500:
                    raise NotYet(str(error)) from error
                raise
        return ask
