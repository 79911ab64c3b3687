#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# core-symbols.sh BUILD: what the core archive takes from outside is on the list in
# core-symbols.txt, so that no memory, lock, clock or file can find its way into the allocator.
set -eu
build=$1

if [ -n "${SAN:-}" ]; then
    echo "note: core symbols are not checked in a sanitizer build"
    exit 0
fi
archive=$build/libcore.a
if [ ! -e "$archive" ]; then
    for source in src/core/*.c; do
        [ ! -e "$source" ] || { echo "$source:1: $archive is not built"; exit 1; }
    done
    exit 0
fi

# nm's lines: "file.o: name type value size" for POSIX format; U is undefined, w is weak undefined.
nm -A -P "$archive" | awk '
    FILENAME != "-" {
        sub(/#.*/, "")
        for (i = 1; i <= NF; i++)
            allowed[$i] = 1
        next
    }
    {
        file = $1
        sub(/^.*\[/, "", file)
        sub(/\.o\]:$/, ".c", file)
    }
    $3 == "U" || $3 == "w" || $3 == "v" { if (!($2 in user)) user[$2] = file; next }
    { defined[$2] = 1 }
    function listed(name, a) {
        for (a in allowed)
            if (a == name || (a ~ /\*$/ && index(name, substr(a, 1, length(a) - 1)) == 1))
                return 1
        return 0
    }
    END {
        for (name in user)
            if (!(name in defined) && !listed(name)) {
                print "src/core/" user[name] ":1: core may not use " name \
                    " (tests/checks/core-symbols.txt)"
                bad = 1
            }
        exit bad
    }' tests/checks/core-symbols.txt -
