#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py BUILD: plant each fault of mutants.py and see whether the unit and property tests notice.

Started by `make mutation` when the tests are built. A mutant is one object file, compiled and linked in front of the archives;
the tests of its own layer run first, then those of the layers above, until one fails, crashes or hangs. Prints a line
a mutant; the last line is "N passed, M failed": killed or known to be equivalent, and survived. Exit status 1
unless 95 % of those that can be told apart are killed and every survivor is explained in mutants.py.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from mutants import EQUIVALENT, MUTANTS # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
PICK = os.environ.get("TEST", "")
PATIENCE = 180 # a lock that is kept is noticed by nothing else
LAYERS = ["cmd", "embed", "config", "kube", "sched", "codec", "state", "core", "base"]
PACKAGES = "cmocka json-c libcurl yaml-0.1"

# Which tests can see a fault of a layer: the quick ones first.
WATCHERS = {
    "core": ["unit/core", "unit/state", "unit/sched", "property"],
    "state": ["unit/state", "property", "unit/sched"],
}
# These know nothing of the layers below them.
IRRELEVANT = {"test_pack", "test_words"}


def flags(kind):
    return subprocess.run(["pkg-config", kind, *PACKAGES.split()], check=True, capture_output=True,
                          text=True).stdout.split()


CC = ["gcc", "-std=gnu11", "-O1", "-g0", "-w", "-pthread", "-fno-common", "-ffp-contract=off", "-Iinclude",
      *flags("--cflags")]
LIBRARIES = [str(BUILD / f"lib{layer}.a") for layer in LAYERS if (BUILD / f"lib{layer}.a").exists()]


def tests_for(layer):
    for folder in WATCHERS[layer]:
        for source in sorted(pathlib.Path("tests", folder).glob("test_*.c")):
            if source.stem not in IRRELEVANT:
                yield source


def plant(file, old, new):
    """The file's text with the fault in it."""
    text = pathlib.Path(file).read_text()
    count = text.count(old)
    if count != 1:
        sys.exit(f"mutants.py: this is {count} times in {file}, and must be there once:\n    {old!r}")
    return text.replace(old, new)


def judge(mutant):
    """None if the tests pass with it, else the name of the one that noticed."""
    file, old, new = mutant
    source = pathlib.Path(file)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        mutated = pathlib.Path(folder, source.name)
        mutated.write_text(plant(*mutant))
        thing = pathlib.Path(folder, "mutant.o")
        done = subprocess.run([*CC, "-c", "-o", thing, mutated], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{file}: {new!r} does not compile:\n{done.stderr}")
        for test in tests_for(source.parts[1]):
            program = pathlib.Path(folder, "test")
            built = BUILD / "obj" / test.with_suffix(".o")
            subprocess.run([*CC, "-o", program, built, thing, BUILD / "tests" / "libsupport.a", *LIBRARIES,
                            *flags_libs, "-lm"], check=True)
            try:
                ran = subprocess.run([program], capture_output=True, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return f"{test.stem} hangs"
            if ran.returncode != 0:
                return test.stem
    return None


flags_libs = flags("--libs")


def main():
    chosen = [mutant for mutant in MUTANTS if PICK in mutant[0]]
    for mutant in chosen: # all of them, before anything is run
        plant(*mutant)
    for file, new in EQUIVALENT:
        if not any(mutant[0] == file and mutant[2] == new for mutant in MUTANTS):
            sys.exit(f"mutants.py: EQUIVALENT explains a mutant that is none: {file}: {new!r}")
    killed, known, survived = 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, killer in zip(chosen, pool.map(judge, chosen)):
            file, old, new = mutant
            said = f"{file}: {' '.join(old.split())[:60]} -> {' '.join(new.split())[:60] or 'nothing'}"
            if killer is not None:
                killed += 1
                print(f"killed by {killer}: {said}", flush=True)
            elif (file, new) in EQUIVALENT:
                known += 1
                print(f"survived, as explained: {said}", flush=True)
            else:
                survived.append(said)
                print(f"SURVIVED: {said}", flush=True)
    print(f"{killed} of {len(chosen)} killed ({100 * killed / len(chosen):.0f} %), {known} survivors explained")
    print(f"{killed + known} passed, {len(survived)} failed")
    return 1 if survived or killed < 0.95 * (len(chosen) - known) else 0


sys.exit(main())
