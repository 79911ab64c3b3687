# SPDX-License-Identifier: Apache-2.0
"""The picture of the four modes is what the daemon does today, and the numbers under the curves are
those of the curves."""
import pathlib
import re
import subprocess
import sys

from support import BUILD, ROOT

PICTURES = ROOT / "docs" / "pictures"


def test_the_picture_of_the_modes_is_true(tmp_path):
    subprocess.run([sys.executable, PICTURES / "draw.py", "modes", "--build", BUILD, "--out", tmp_path],
                   check=True, timeout=300)
    assert (tmp_path / "modes.svg").read_text() == (PICTURES / "modes.svg").read_text()


def test_the_curves_are_those_of_the_table():
    """Read the values back from the lines' points, to what a tenth of a point can tell."""
    rows = re.findall(r"^\| (default|gpuspec33) \| [^|]+ \|(.*)\|$",
                      (ROOT / "docs" / "which-policy.md").read_text(), re.M)
    assert len(rows) == 8
    for pods in ("default", "gpuspec33"):
        picture = pathlib.Path(PICTURES / f"curves-{pods}.svg").read_text()
        lines = re.findall(r'<polyline points="([^"]+)" fill="none" stroke="#[0-9a-f]+" '
                           r'stroke-width="2"', picture)
        tables = [[float(cell) for cell in row.split("|")] for name, row in rows if name == pods]
        assert len(lines) == len(tables) == 4
        for line, table in zip(lines, tables):
            points = {round(60 + (float(x) - 52) * 70 / 620): 60 + (360 - float(y)) * 40 / 330
                      for x, y in (pair.split(",") for pair in line.split())}
            for at, value in zip((80, 90, 100, 130), table):
                assert abs(points[at] - value) < 0.02, (pods, at)
