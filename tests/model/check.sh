#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check.sh [DIR]: the model of the protocol holds, exhaustively, in each of its settings; and without any one of
# its safeguards SPIN finds a counterexample.  Started by `make model`; DIR takes what SPIN and cc make.
set -u
cd "$(dirname "$0")" || exit
model=$PWD/bind.pml
dir=${1:-../../build/model}
mkdir -p "$dir" && cd "$dir" || exit
export LC_ALL=C.UTF-8
passed=0 failed=0

# search NAME FLAG...: the verifier's report in NAME.log, the counterexample in NAME.trail.  Exit status 0: all
# states were seen and none is wrong; 1: a counterexample; 2: neither.
search() {
    local name=$1 log=$1.log
    shift
    rm -rf "$name" "$log"
    mkdir "$name" && cp "$model" "$name" && cd "$name" || exit
    {
        spin -a "$@" bind.pml && gcc -O1 -w -DSAFETY -DCOLLAPSE -DNOFAIR -DMEMLIM=4000 -o pan pan.c &&
            ./pan -E -m100000
    } >"../$log" 2>&1
    cd ..
    grep -q '^pan:1: assertion violated' "$log" && return 1
    grep -q 'errors: 0$' "$log" && ! grep -q 'Search not completed\|max search depth' "$log" && return 0
    return 2
}

# What happened on the way to a counterexample, by the names of the steps.
story() {
    local name=$1
    shift
    (cd "$name" && spin -t -p "$@" bind.pml 2>/dev/null) |
        sed -n 's/^ *\([0-9]*\):\tproc *[0-9]* (\([A-Za-z]*\):[0-9]*) [^:]*:\([0-9]*\) .*/\1 \2 \3/p' |
        awk -v model="$model" '
            BEGIN {
                while ((getline line < model) > 0) {
                    n++
                    if (line ~ /^proctype/) step = ""
                    if (line ~ /\/\* ---- [^-]/) { step = line; gsub(/^ *\/\* ---- | *\*\/$/, "", step) }
                    at[n] = step
                }
            }
            $1 != last && $2 != "init" && $2 != "End" { print "    " $2 (at[$3] != "" ? ": " at[$3] : "") }
            { last = $1 }'
}

report() { # NAME VERDICT NOTE
    local states
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$1.log")
    printf '%-28s %-18s %9s states  %s\n' "$1" "$2" "${states:-?}" "$3"
}

holds() { # NAME FLAG...
    search "$@"
    if [ $? -eq 0 ]; then
        passed=$((passed + 1))
        report "$1" holds ""
    else
        failed=$((failed + 1))
        report "$1" "DOES NOT HOLD" "$dir/$1.log"
        story "$@"
    fi
}

fails() { # NAME FLAG...
    search "$@"
    if [ $? -eq 1 ]; then
        passed=$((passed + 1))
        report "$1" counterexample ""
        [ -z "${V:-}" ] || story "$@"
    else
        failed=$((failed + 1))
        report "$1" "NO COUNTEREXAMPLE" "$dir/$1.log"
    fi
}

start=$SECONDS
one="-DREPLICAS=1 -DNO_ELECTION -DUIDS=3"
# shellcheck disable=SC2086 # flags are words
{
    holds one-process $one
    holds one-process-two-cards -DREPLICAS=1 -DNO_ELECTION -DCARDS=2
    holds one-process-finer-time -DREPLICAS=1 -DNO_ELECTION -DTD=2 -DCRASHES=2
    holds two-replicas -DBINDS=1
    holds two-replicas-two-ends -DBINDS=1 -DCRASHES=2
    holds two-replicas-more-binds -DCRASHES=0

    fails uid-precondition $one -DBINDS=1 -DWITHOUT_UID
    fails server-timeout $one -DBINDS=1 -DWITHOUT_TIMEOUT
    fails wait-of-a-new-term $one -DBINDS=1 -DWITHOUT_TERM_WAIT
    fails consistent-read $one -DBINDS=1 -DWITHOUT_CONSISTENT_READ
    fails decision-in-the-same-term $one -DBINDS=1 -DWITHOUT_TERM_OF_DECISION
    fails keep-on-unknown-outcome $one -DBINDS=1 -DWITHOUT_KEEP
    fails grace-of-the-janitor $one -DBINDS=1 -DWITHOUT_GRACE
    fails janitor $one -DBINDS=1 -DWITHOUT_JANITOR
    fails decide-again-at-bind $one -DBINDS=1 -DWITHOUT_REDECIDE
    fails a-read-is-newer $one -DBINDS=1 -DWITHOUT_NEWER_READ
    fails fence-at-every-send -DBINDS=1 -DWITHOUT_FENCE
    fails mark-of-a-clean-stop -DBINDS=1 -DWITHOUT_CLEAN_MARK
    fails mark-of-a-whole-term -DBINDS=1 -DCRASHES=2 -DWITHOUT_MARK_OF_A_TERM
    fails bound-is-left-to-the-watch -DCRASHES=0 -DWITHOUT_LEAVING_BOUND_TO_WATCH
}
echo "$((SECONDS - start)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
