#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs.py BUILD: the documents agree with the tree.

Relative links and their anchors resolve, every `make target` exists, README's commands are run by
tests, and the configuration reference is the one the program prints.
"""
import pathlib
import re
import subprocess
import sys

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
bad = 0


def fail(path, number, text):
    global bad
    bad += 1
    print(f"{path}:{number}: {text}")


def split(path):
    """Yield (number, line, in_code_block) for each line; fences themselves are left out."""
    fence = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and fence is None:
            fence = mark[1]
        elif mark and fence is not None and mark[1].startswith(fence):
            fence = None
        else:
            yield number, line, fence is not None
    if fence is not None:
        fail(path, number, "the code block is not closed")


def anchors(path):
    """The anchors that a code forge gives to the headings of a document."""
    found = {}
    result = set()
    for _, line, code in split(path):
        heading = None if code else re.match(r"#+\s+(.*?)\s*#*$", line)
        if heading:
            slug = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", slug).replace(" ", "-")
            seen = found.get(slug, 0)
            found[slug] = seen + 1
            result.add(f"{slug}-{seen}" if seen else slug)
    return result


def check_links(path):
    for number, line, code in split(path):
        if code:
            continue
        text = re.sub(r"`[^`]*`", "", line)
        targets = re.findall(r"\]\(([^)\s]+)[^)]*\)", text)
        targets += re.findall(r"^\[[^]]+\]:\s+(\S+)", text)
        for target in targets:
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            name, _, anchor = target.partition("#")
            file = path.parent / name if name else path
            if not file.exists():
                fail(path, number, f"the link to {target} leads nowhere")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                fail(path, number, f"{file} has no heading #{anchor}")


def make_targets():
    """The targets for people: those that the Makefile declares phony."""
    text = pathlib.Path("Makefile").read_text().replace("\\\n", " ")
    return {word for line in re.findall(r"^\.PHONY:(.*)$", text, re.M) for word in line.split()}


def check_make(path, targets):
    for number, line, code in split(path):
        for piece in [line] if code else re.findall(r"`([^`]+)`", line):
            piece = re.sub(r"\b[A-Z_]+='[^']*'", "", piece)  # a variable's words are no targets
            for words in re.findall(r"(?:^|[\s$(])make((?:\s+[^\s|&;<>#]+)+)", piece):
                for word in words.split():
                    if re.fullmatch(r"[a-z][a-z-]*", word):
                        if word not in targets:
                            fail(path, number, f"`make {word}` is no target of the Makefile")
                    elif "=" not in word and not word.startswith("-"):
                        break


def check_reference(path, program):
    text = path.read_text()
    number = text[: text.find(BEGIN)].count("\n") + 1
    if BEGIN not in text or END not in text:
        fail(path, 1, f"lacks the lines {BEGIN} and {END}")
        return
    written = text.split(BEGIN, 1)[1].split(END, 1)[0].strip().splitlines()
    run = subprocess.run([program, "--print-config-reference"], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=30, check=False)
    if run.returncode != 0:
        fail(path, number, f"{program} --print-config-reference: {run.stderr.strip()}")
        return
    printed = run.stdout.strip().splitlines()
    for i in range(max(len(written), len(printed))):
        left = written[i] if i < len(written) else "(nothing)"
        right = printed[i] if i < len(printed) else "(nothing)"
        if left != right:
            start = text.split(BEGIN, 1)[1]
            lead = start[: len(start) - len(start.lstrip())].count("\n")
            fail(path, number + lead + i, f"differs from {program} --print-config-reference\n"
                 f"      written: {left}\n      printed: {right}")
            return


def main():
    build = pathlib.Path(sys.argv[1])
    documents = sorted(p for pattern in ("*.md", "docs/**/*.md") for p in
                       pathlib.Path(".").glob(pattern))
    targets = make_targets()
    for path in documents:
        check_links(path)
        check_make(path, targets)
    # test_readme.py takes the curl lines out of README.md itself and runs them.
    readme = pathlib.Path("README.md")
    if readme.exists() and "curl " in readme.read_text():
        if not pathlib.Path("tests/integration/test_readme.py").exists():
            fail(readme, 1, "tests/integration/test_readme.py, which runs its commands, is missing")
    reference = pathlib.Path("docs/configuration.md")
    if reference.exists():
        check_reference(reference, build / "deviceshare-extender")
    sys.exit(bad > 0)


main()
