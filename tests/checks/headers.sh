#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone, with all warnings, and bears being included twice.
# HEADER_CC is the compiler with its flags.
set -u
: "${HEADER_CC:?run this by make check}"

status=0
for header in $(find include -name '*.h' | sort); do
    # shellcheck disable=SC2086 # HEADER_CC is a command line
    printf '#include "%s"\n#include "%s"\n' "${header#include/}" "${header#include/}" |
        $HEADER_CC -fsyntax-only -x c - || { echo "$header:1: does not compile alone"; status=1; }
done
exit $status
