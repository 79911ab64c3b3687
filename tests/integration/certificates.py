# SPDX-License-Identifier: Apache-2.0
"""Certificates made with the openssl command."""
import os
import pathlib
import subprocess


def openssl(*arguments, stdin=b""):
    done = subprocess.run(["openssl", *map(str, arguments)], input=stdin, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class Pair:
    """A certificate and its key."""

    def __init__(self, directory, name):
        self.cert = pathlib.Path(directory) / f"{name}.crt"
        self.key = pathlib.Path(directory) / f"{name}.key"

    @property
    def serial(self):
        return openssl("x509", "-in", self.cert, "-noout", "-serial").decode().strip()

    @property
    def curl(self):
        return ["--cert", str(self.cert), "--key", str(self.key)]


class Authority(Pair):
    """A CA in a directory of its own."""

    def __init__(self, directory, name="ca"):
        directory = pathlib.Path(directory)
        directory.mkdir(exist_ok=True)
        super().__init__(directory, name)
        self.directory = directory
        self.count = 0
        openssl("req", "-x509", *NEW_KEY, "-keyout", self.key, "-out", self.cert,
                "-subj", f"/CN={name}", "-days", "10")

    def issue(self, common_name="", names="", usage="clientAuth", days=5):
        """`names` as in subjectAltName: "DNS:a,URI:b"."""
        self.count += 1
        made = Pair(self.directory, f"leaf{self.count}")
        extensions = self.directory / "extensions"
        extensions.write_text((f"subjectAltName={names}\n" if names else "") +
                              f"basicConstraints=CA:FALSE\nextendedKeyUsage={usage}\n")
        request = openssl("req", *NEW_KEY, "-keyout", made.key,
                          "-subj", f"/CN={common_name}" if common_name else "/")
        openssl("x509", "-req", "-CA", self.cert, "-CAkey", self.key, "-days", days,
                "-set_serial", f"0x{os.urandom(8).hex()}", "-extfile", extensions,
                "-out", made.cert, stdin=request)
        return made

    def server(self, **fields):
        return self.issue("extender", "DNS:localhost,IP:127.0.0.1", "serverAuth", **fields)


NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Mount:
    """A directory of files that all change at once, as kubelet does it with Secrets."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.versions = 0

    def put(self, **files):
        """put(tls_crt=path, ...): the files tls.crt ... now hold what is at these paths."""
        self.versions += 1
        version = self.directory / f"version{self.versions}"
        version.mkdir()
        for name, source in files.items():
            (version / name.replace("_", ".")).write_bytes(pathlib.Path(source).read_bytes())
        fresh = self.directory / "fresh"
        fresh.symlink_to(version.name)
        os.replace(fresh, self.directory / "data")
        for name in files:
            link = self.directory / name.replace("_", ".")
            if not link.is_symlink():
                link.symlink_to(f"data/{link.name}")
        return self
