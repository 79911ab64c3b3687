/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "json_oracle.h"

/* The JSON reader against json-c. */

enum { NESTING = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why;
    if (json_oracle((struct str){(const char *)data, size}, NESTING, &why) == JSON_DISPUTED) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    return 0;
}
