#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [SECONDS]: each fuzz target for so long (60), from its corpus in tests/fuzz/corpus and what earlier runs
# added in build/fuzz/NAME.  Started by `make fuzz`.  Inputs that were survived badly are left in build/fuzz.
set -u
: "${B:?run this by make fuzz}"
seconds=${1:-60}
TEST=${TEST:-}
mkdir -p build/fuzz
passed=0 failed=0
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
# Kernels that randomise addresses in 32 bits leave ASan no place for its shadow.
setarch -R true 2>/dev/null && calm="setarch -R" || calm=
for program in "$B"/tests/fuzz/fuzz_*; do
    name=${program##*/fuzz_}
    [ -x "$program" ] && [ -e "tests/fuzz/fuzz_$name.c" ] || continue
    case $name in *"$TEST"*) ;; *) continue ;; esac
    log=build/fuzz/$name.log
    mkdir -p "build/fuzz/$name"
    # shellcheck disable=SC2086 # nothing, or two words
    nice $calm "$program" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" \
        "build/fuzz/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1
    status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        printf '%-12s %12s inputs survived\n' "$name" "${runs:-?}"
    else
        failed=$((failed + 1))
        printf '%-12s exit status %d; the log is %s\n' "$name" "$status" "$log"
        grep -a -v '^#\|^[IWE][0-9]\{4\} ' "$log" | tail -n 40 | sed 's/^/    /'
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
