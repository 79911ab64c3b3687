#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every C file starts with its licence; every prototype in a header has a comment above it (a run of
# lines without a blank one between may share it); no tracked file speaks of the machine it was
# written on.
set -u
status=0

for file in $(find src include tests -name '*.[ch]' 2>/dev/null | sort); do
    head -n 1 "$file" | grep -q 'SPDX-License-Identifier: Apache-2\.0' ||
        { echo "$file:1: the first line is not the SPDX licence line"; status=1; }
done

# shellcheck disable=SC2046 # file names of this tree hold no blanks
awk '
    FNR == 1 { commented = in_comment = 0 }
    in_comment { if (/\*\//) in_comment = 0; next }
    /^[ \t]*\/\*/ { commented = 1; if (!/\*\//) in_comment = 1; next }
    /^[ \t]*\/\// { commented = 1; next }
    /^[ \t]*$/ { commented = 0; next }
    # A prototype or an inline function: it begins in the first column and has a parameter list.
    /^[a-z_][A-Za-z0-9_ *]*[ *][a-z_][A-Za-z0-9_]*\(/ && !/^(typedef|enum|struct [a-z_0-9]+ *\{)/ {
        if (!commented) {
            print FILENAME ":" FNR ": no comment above this declaration: " $0
            bad = 1
        }
    }
    # What follows the body of an inline function needs a comment of its own.
    /^}$/ { commented = 0 }
    END { exit bad }' $(find include -name '*.h' 2>/dev/null | sort) /dev/null || status=1

# The bracketed letters keep this line from finding itself.
if [ -e .git ] && command -v git >/dev/null; then
    if git grep -nIE '/wor[k]/|/far[m]/|\.librar[y]|subagen[t]' -- . ; then
        echo "words of the machine this was written on, in the lines above"
        status=1
    fi
fi
exit $status
