#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PART...: run these parts of the tests (check unit property conformance corpus integration),
# print a line for each and the sum in the last one.  Started by `make test` from the top of the
# tree, with B, PYTHON, TEST, SAN, VALGRIND and HEADER_CC in the environment.  Logs are left in $B/log.
set -u
: "${B:?run this by make test}" "${PYTHON:?}"
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
TEST=${TEST:-}
logs=$B/log
mkdir -p "$logs"

# What a sanitizer finds in any process of the tests, daemons included, goes to a file of its own
# and counts as a failure, whatever became of the process.
if [ -n "${SAN:-}" ]; then
    # Kernels that randomise addresses in 32 bits leave these runtimes no place for their shadow.
    if [ -z "${SUITE_ASLR_OFF:-}" ] && setarch -R true 2>/dev/null; then
        SUITE_ASLR_OFF=1 exec setarch -R "$0" "$@"
    fi
    rm -f "$logs"/sanitizer.*
    common="log_path=$PWD/$logs/sanitizer:exitcode=86"
    export ASAN_OPTIONS="$common:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
    export UBSAN_OPTIONS="$common:print_stacktrace=1:halt_on_error=1"
    export TSAN_OPTIONS="$common:second_deadlock_stack=1:history_size=4"
    [ ! -e tests/checks/tsan.supp ] || TSAN_OPTIONS+=":suppressions=$PWD/tests/checks/tsan.supp"
fi

# The cmocka programs under memcheck: an invalid access, a value that was never set, or a leak fails the program.
under=() slower=1
if [ -n "${VALGRIND:-}" ]; then
    under=(valgrind --quiet --fair-sched=try --error-exitcode=86 --leak-check=full --errors-for-leak-kinds=definite,indirect
        --child-silent-after-fork=yes)
    slower=30
fi

total_passed=0 total_failed=0

# count_tap LOG: print passed, failed and skipped of what a cmocka program wrote as TAP.  A test that was announced and has no result
# was cut short by a crash: it failed.
count_tap() {
    awk '/^1\.\.[0-9]+$/ { planned += substr($0, 4) }
         /^ok /          { passed++ }
         /^(not )?ok .*# SKIP/ { skipped++; if (/^ok/) passed-- }
         END { print passed + 0, planned - passed - skipped, skipped + 0 }' "$1"
}

# run_cmocka SECONDS PROGRAM...: run those that TEST picks.
run_cmocka() {
    local seconds=$1 program log status p f s
    shift
    for program; do
        case $program in *"$TEST"*) ;; *) continue ;; esac
        log=$logs/${program#"$B"/tests/}.log
        mkdir -p "${log%/*}"
        { # the shell's own word on a crash is not wanted, the status is
            CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 5 $((seconds * slower)) "${under[@]}" "$program" >"$log" 2>&1
            status=$?
        } 2>/dev/null
        read -r p f s < <(count_tap "$log")
        if [ "$status" -ne 0 ] && [ "$f" -le 0 ]; then f=1; fi
        if [ "$((p + f + s))" -eq 0 ]; then f=1; fi
        if [ "$f" -gt 0 ]; then
            echo "$program: exit status $status; the log is $log"
            grep -v '^ok ' "$log" | tail -n 40 | sed 's/^/    /'
        fi
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) ran=$((ran + 1))
    done
}

# The programs that make built for the sources of a part: a binary whose source is gone is no test.
built() {
    local source
    for source in "$@"; do
        [ ! -e "$source" ] || echo "$B/${source%.c}"
    done
}

part_unit() {
    mapfile -t programs < <(built tests/unit/*/test_*.c)
    run_cmocka 120 "${programs[@]}"
}

part_property() {
    mapfile -t programs < <(built tests/property/test_*.c)
    run_cmocka 600 "${programs[@]}"
}

# Each fuzz target over its corpus.
part_corpus() {
    mapfile -t programs < <(built tests/fuzz/fuzz_*.c)
    run_cmocka 120 "${programs[@]}"
}

part_conformance() {
    local log=$logs/conformance.log last status
    [ -z "$TEST" ] || return
    [ -d tests/data/vectors ] || return
    ran=1
    if [ ! -x "$B/tests/conformance" ]; then
        echo "tests/data/vectors: there are vectors but no runner, tests/conformance/*.c"
        failed=1
        return
    fi
    timeout -k 5 600 "$B/tests/conformance" tests/data/vectors >"$log" 2>&1
    status=$?
    last=$(tail -n 1 "$log")
    if [[ $last =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
        passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
    fi
    if { [ "$status" -ne 0 ] || [ "$passed" -eq 0 ]; } && [ "$failed" -eq 0 ]; then failed=1; fi
    if [ "$failed" -gt 0 ]; then
        echo "$B/tests/conformance: exit status $status; the log is $log"
        tail -n 40 "$log" | sed 's/^/    /'
    fi
}

part_integration() {
    local log=$logs/integration.log xml=$logs/integration.xml status key
    [ -e tests/integration ] || return
    ran=1
    rm -f "$xml"
    DEVICESHARE_BUILD=$B timeout -k 30 1800 "$PYTHON" -m pytest -q -ra -p no:cacheprovider \
        --junitxml="$xml" ${TEST:+-k "$TEST"} tests/integration </dev/null >"$log" 2>&1
    status=$?
    if [ -n "$TEST" ] && [ "$status" -eq 5 ]; then # none is picked
        ran=0
        return
    fi
    local tests=0 failures=0 errors=0
    for key in tests failures errors skipped; do
        printf -v "$key" '%d' "$(grep -o "<testsuite [^>]*" "$xml" 2>/dev/null |
            sed -n "s/.* $key=\"\([0-9]*\)\".*/\1/p")" 2>/dev/null
    done
    failed=$((failures + errors)) passed=$((tests - failures - errors - skipped))
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
    if [ "$failed" -gt 0 ]; then
        echo "tests/integration: exit status $status; the log is $log"
        tail -n 80 "$log" | sed 's/^/    /'
    fi
}

part_check() {
    local check command log
    for check in layers.py headers.sh core-symbols.sh style.sh docs.py deploy.py; do
        case $check in *"$TEST"*) ;; *) continue ;; esac
        log=$logs/check-${check%.*}.log
        ran=$((ran + 1))
        command=("tests/checks/$check" "$B")
        [ "${check%.py}" = "$check" ] || command=("$PYTHON" "${command[@]}")
        if "${command[@]}" >"$log" 2>&1; then
            passed=$((passed + 1))
            sed -n 's/^note: /    /p' "$log"
        else
            failed=$((failed + 1))
            echo "tests/checks/$check:"
            sed 's/^/    /' "$log"
        fi
    done
}

shopt -s nullglob
for part; do
    passed=0 failed=0 skipped=0 ran=0
    part_"$part"
    reports=("$logs"/sanitizer.*)
    if [ "${#reports[@]}" -gt 0 ]; then
        failed=$((failed + ${#reports[@]}))
        for report in "${reports[@]}"; do
            echo "sanitizer report ${report/sanitizer/$part-sanitizer}:"
            head -n 60 "$report" | sed 's/^/    /'
            mv "$report" "${report/sanitizer/$part-sanitizer}"
        done
    fi
    if [ "$ran" -eq 0 ]; then
        printf '%-12s  none\n' "$part"
        continue
    fi
    printf '%-12s  %d passed, %d failed%s\n' "$part" "$passed" "$failed" \
        "$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
done

[ -z "$TEST" ] || [ "$((total_passed + total_failed))" -gt 0 ] || echo "No test matches '$TEST'."
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ] && [ "$total_passed" -gt 0 ]
