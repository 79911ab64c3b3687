#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: each fuzz target that TEST picks, from its corpus in tests/fuzz/corpus and what earlier runs added in
# build/fuzz/NAME.  Started by `make fuzz`, with B and
#   SECONDS_EACH=n   for so long (60), or
#   RUNS=n           for so many inputs, a tenth of it where an input is a conversation: http and state; with
#                    SECONDS_EACH too, whatever is first; or
#   MERGE=1          not at all: what earlier runs added and reaches new code goes into the corpus.
#   SEED=n           with the same dice each time.
# Inputs that were survived badly are left in build/fuzz.
set -u
: "${B:?run this by make fuzz}"
TEST=${TEST:-} RUNS=${RUNS:-} MERGE=${MERGE:-} SEED=${SEED:-}
mkdir -p build/fuzz
passed=0 failed=0
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
# Kernels that randomise addresses in 32 bits leave ASan no place for its shadow.
setarch -R true 2>/dev/null && calm="setarch -R" || calm=

# how_far NAME: the options that end a run, into end.
how_far() {
    end=()
    case $RUNS,$1 in
    ,*) SECONDS_EACH=${SECONDS_EACH:-60} ;;
    *,http | *,state) end+=("-runs=$((RUNS / 10))") ;;
    *) end+=("-runs=$RUNS") ;;
    esac
    [ -z "${SECONDS_EACH:-}" ] || end+=("-max_total_time=$SECONDS_EACH")
}

# Longer inputs are slower and find little more.
longest() {
    case $1 in
    state) echo 512 ;;
    http | quantity) echo 2048 ;;
    *) echo 8192 ;;
    esac
}

for program in "$B"/tests/fuzz/fuzz_*; do
    name=${program##*/fuzz_}
    [ -x "$program" ] && [ -e "tests/fuzz/fuzz_$name.c" ] || continue
    case $name in *"$TEST"*) ;; *) continue ;; esac
    log=build/fuzz/$name.log
    found=build/fuzz/$name
    corpus=tests/fuzz/corpus/$name
    mkdir -p "$found"
    options=("-max_len=$(longest "$name")" -entropic=0 -timeout=60 -rss_limit_mb=2048 -print_final_stats=1
        "-artifact_prefix=build/fuzz/$name-")
    if [ -n "$MERGE" ]; then
        # New code, not code that was run more often: that keeps the corpus small.
        options+=(-merge=1 -use_counters=0 "$corpus" "$found")
    else
        [ ! -e "tests/fuzz/$name.dict" ] || options+=("-dict=tests/fuzz/$name.dict")
        [ -z "$SEED" ] || options+=("-seed=$SEED")
        how_far "$name"
        options+=("${end[@]}" "$found" "$corpus")
    fi
    start=$SECONDS
    # shellcheck disable=SC2086 # nothing, or two words
    nice $calm "$program" "${options[@]}" >"$log" 2>&1
    status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ "$status" -ne 0 ]; then
        failed=$((failed + 1))
        printf '%-12s exit status %d; the log is %s\n' "$name" "$status" "$log"
        grep -a -v '^#\|^[IWE][0-9]\{4\} ' "$log" | tail -n 40 | sed 's/^/    /'
    elif [ -n "$MERGE" ]; then
        passed=$((passed + 1))
        printf '%-12s %12d files in %s\n' "$name" "$(find "$corpus" -type f | wc -l)" "$corpus"
    else
        passed=$((passed + 1))
        printf '%-12s %12s inputs survived in %d s\n' "$name" "${runs:-?}" $((SECONDS - start))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
