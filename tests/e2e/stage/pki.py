# SPDX-License-Identifier: Apache-2.0
"""Certificates for a stage that lives for minutes, made by the openssl command."""
import pathlib
import subprocess

_CONFIG = """
[req]
distinguished_name = dn
[dn]
[ca]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
"""


def _openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"openssl {' '.join(arguments)}: {done.stderr}"


def signing_key(path):
    """An RSA key pair, as for service account tokens."""
    _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(path))
    return path


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, directory, name):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / "openssl.cnf"
        self.config.write_text(_CONFIG)
        self.cert = self.directory / "ca.crt"
        self.key = self.directory / "ca.key"
        self._request(f"/CN={name}", "ca", self.cert, self.key)

    def _request(self, subject, extensions, cert, key, *more):
        _openssl("req", "-x509", "-config", str(self.config), "-extensions", extensions,
                 "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-days", "30", "-subj", subject, "-out", str(cert), "-keyout", str(key), *more)

    def issue(self, name, organization=None, names=()):
        """A certificate for a user (organization = Kubernetes group) or, with names like
        "IP:127.0.0.1" or "DNS:host", for a server. (cert path, key path)"""
        stem = name.replace(":", "-").replace("/", "-")
        cert, key = self.directory / f"{stem}.crt", self.directory / f"{stem}.key"
        subject = (f"/O={organization}" if organization else "") + f"/CN={name}"
        more = ["-addext", "subjectAltName=" + ",".join(names)] if names else []
        self._request(subject, "leaf", cert, key, "-CA", str(self.cert), "-CAkey", str(self.key),
                      *more)
        return cert, key
