#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# prove.sh [PART...]: the long suites, one after the other, at the scale of docs/proof.md; hours.  Started by
# `make prove`.  SCALE=n divides it: SCALE=100 takes minutes.  Logs and figures are left in build/prove; the last lines
# are a part each, and the sum.
set -u -o pipefail
: "${MAKE:?run this by make prove}"
SCALE=${SCALE:-1}
out=build/prove
mkdir -p "$out"
summary=() passed=0 failed=0

scaled() {
    local value=$(($1 / SCALE))
    echo $((value > $2 ? value : $2))
}

# part NAME COMMAND...: run it unless others were picked.
part() {
    local name=$1 start=$SECONDS status
    shift
    case " $picked " in "  " | *" $name "*) ;; *) return ;; esac
    printf '\n==== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$out/$name.log"
    status=$?
    if [ "$status" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    summary+=("$(printf '%-12s %-6s %5d s  %s' "$name" "$([ "$status" -eq 0 ] && echo met || echo FAILED)" \
        $((SECONDS - start)) "$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$out/$name.log" | tail -n 1)")")
}

picked="$*"
rm -f "$out/figures"
part analyze "$MAKE" analyze
part memcheck "$MAKE" test-unit VALGRIND=1
part asan "$MAKE" CC=clang SAN=address,undefined test
part tsan "$MAKE" SAN=thread test
part mutation "$MAKE" mutation
part model "$MAKE" model
part hostile env HOSTILE=1 "$MAKE" test-integration TEST=test_hostile
part stories "$MAKE" e2e
part stories-asan "$MAKE" CC=clang SAN=address,undefined e2e
part stories-tsan "$MAKE" SAN=thread e2e
part chaos env CHAOS_REPORT="$PWD/$out/figures" CHAOS_KILLS="$(scaled 1000 10)" CHAOS_FILLS="$(scaled 20 2)" \
    CHAOS_SOAK_S="$(scaled 1800 20)" "$MAKE" e2e TEST=test_chaos
part fuzz "$MAKE" fuzz RUNS="$(scaled 10000000 10000)"

printf '\n==== summary (SCALE=%s)\n' "$SCALE"
[ ! -e "$out/figures" ] || cat "$out/figures"
grep -h 'inputs survived' "$out/fuzz.log" 2>/dev/null
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
