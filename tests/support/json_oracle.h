/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_JSON_ORACLE_H
#define SUPPORT_JSON_ORACLE_H

#include <stdint.h>

#include "base/str.h"

/*
 * The reader (codec/reader.h) against json-c, which shares no line with it. json-c takes more than JSON
 * (tests/unit/codec/test_reader.c lists what), so the two agree when
 *   what the reader takes, json-c takes, with the same values; and
 *   what json-c takes and prints again, the reader takes, with the same values. Fractions and ill-formed UTF-8 are excepted:
 *   json-c prints them as they stood.
 */
enum json_verdict {
    JSON_ACCEPTED, /* by the reader, and json-c agrees */
    JSON_REFUSED,  /* by the reader, and json-c agrees or is known to be lenient */
    JSON_DISPUTED,
};

/* Compare them on one text. *ret_why says what is disputed. */
enum json_verdict json_oracle(struct str text, uint32_t nesting, const char **ret_why);

#endif
