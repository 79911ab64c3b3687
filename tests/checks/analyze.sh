#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# analyze.sh: what two static analyzers find in src/, one line each; exit status 1 if they find anything.  Started
# by `make analyze` with ANALYZE_CC, the compiler with all of its options.  About a minute.
#
# gcc -fanalyzer has no suppressions: what it found is mended or asserted.  cppcheck's are in cppcheck.supp, each
# with its reason, and one that is needed no more is a finding.
set -u -o pipefail
: "${ANALYZE_CC:?run this by make analyze}"
export LC_ALL=C.UTF-8
out=build/analyze
mkdir -p "$out"
passed=0 failed=0

# tell NAME: what is in NAME.log are findings.
tell() {
    if [ -s "$out/$1.log" ]; then
        failed=$((failed + 1))
        sed 's/^/    /' "$out/$1.log"
        echo "$1: $(grep -c ': \(warning\|error\|performance\|portability\|information\):' "$out/$1.log") findings"
    else
        passed=$((passed + 1))
        echo "$1: nothing in $(find src -name '*.c' | wc -l) files"
    fi
}

# shellcheck disable=SC2086 # a command and its options
find src -name '*.c' -print0 |
    xargs -0 -n 8 -P "$(nproc)" sh -c 'cc=$0; for file; do $cc -fanalyzer -fdiagnostics-path-format=none -c -o /dev/null "$file"; done' \
        "$ANALYZE_CC" >"$out/gcc.log" 2>&1
tell gcc

mkdir -p "$out/cppcheck"
cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability,information \
    --suppressions-list=tests/checks/cppcheck.supp --library=posix --library=gnu -Iinclude -j "$(nproc)" \
    --cppcheck-build-dir="$out/cppcheck" --template='{file}:{line}: {severity}: {message} [{id}]' \
    src >"$out/cppcheck.log" 2>&1
tell cppcheck

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
