# SPDX-License-Identifier: Apache-2.0
"""README's console blocks, run in order against a fresh demo, answer what README says."""
import re
import subprocess

import pytest

from support import BUILD, PATIENCE, ROOT

README = ROOT / "README.md"
ADDRESS = "127.0.0.1:9876"


def console_blocks():
    """[[(command, expected output)...]...] of the console blocks that call curl."""
    if not README.exists():
        return []
    blocks = []
    for text in re.findall(r"(?ms)^```console\n(.*?)^```$", README.read_text()):
        steps = []
        for line in text.splitlines():
            if line.startswith("$ "):
                steps.append([line[2:], []])
            elif steps and steps[-1][0].endswith("\\") and not steps[-1][1]:
                steps[-1][0] = steps[-1][0][:-1] + line
            elif steps:
                steps[-1][1].append(line)
        if any(command.startswith("curl ") for command, _ in steps):
            blocks.append([(command, "\n".join(output)) for command, output in steps])
    return blocks


def run(command, daemon):
    """A command of README, with the demo's port replaced by the test's."""
    done = subprocess.run(["bash", "-o", "pipefail", "-c",
                           command.replace(ADDRESS, f"127.0.0.1:{daemon.port}")],
                          cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(f"127.0.0.1:{daemon.port}", ADDRESS)


def test_readme(start):
    blocks = console_blocks()
    if not blocks:
        pytest.skip("README.md has no console blocks with curl yet")
    daemon = start(ROOT / "config" / "demo" / "cluster")
    demo = subprocess.run([BUILD / "deviceshare-demo", "--server", daemon.url],
                          capture_output=True, timeout=PATIENCE, check=False)
    assert demo.returncode == 0, demo.stderr
    for block in blocks:
        for command, expected in block:
            assert run(command, daemon).rstrip("\n") == expected.rstrip("\n"), command
