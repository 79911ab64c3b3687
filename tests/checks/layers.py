#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold every #include line of src/ and include/ to the table in layers.mk."""
import pathlib
import re
import sys


def read_table(path):
    """The variables of layers.mk, each a list of words."""
    text = re.sub(r"#.*", "", path.read_text()).replace("\\\n", " ")
    table = {}
    for name, value in re.findall(r"^(\w+)\s*:=(.*)$", text, re.M):
        value = re.sub(r"\$\((\w+)\)", lambda m: " ".join(table[m[1]]), value)
        table[name] = value.split()
    return table


def listed(header, entries):
    """Whether `header` is one of `entries`, where an entry may be a whole directory."""
    return any(header == e or (e.endswith("/") and header.startswith(e)) for e in entries)


def judge(table, path, layer, quote, header):
    """What is wrong with this include in a file of this layer; None when nothing is."""
    if quote == '"':
        if "/" not in header:
            return f'write "{header}" with its layer'
        target = header.split("/")[0]
        if target not in table["LAYERS"]:
            return f'"{header}" is in no layer'
        if not pathlib.Path("include", header).exists():
            return f'there is no include/{header}'
        if target not in table[f"uses_{layer}"]:
            return f'{layer} may not use {target} ("{header}")'
        return None
    if listed(header, table.get(f"foreign_{layer}", [])):
        return None
    if listed(header, table["libc_core" if layer == "core" else "libc"]):
        return None
    return f"{layer} may not include <{header}>"


def main():
    table = read_table(pathlib.Path(__file__).with_name("layers.mk"))
    bad = 0
    for path in sorted(p for top in ("include", "src") for p in pathlib.Path(top).rglob("*.[ch]")):
        layer = path.parts[1]
        if len(path.parts) != 3 or layer not in table["LAYERS"]:
            print(f"{path}:1: not in a layer; want {path.parts[0]}/<layer>/{path.name}")
            bad += 1
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            wrong = match and judge(table, path, layer, match[1], match[2])
            if wrong:
                print(f"{path}:{number}: {wrong}")
                bad += 1
    sys.exit(bad > 0)


main()
