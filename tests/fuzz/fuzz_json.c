/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "codec/reader_index.h"
#include "json_oracle.h"

/* The JSON reader against json-c. */

enum { NESTING = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why;
    AUTO_INDEX index;
    if (size % 2 == 0) /* to walk by what was noted, or by the bytes */
        reader_index_begin(&index, NULL);
    if (json_oracle((struct str){(const char *)data, size}, NESTING, &why) == JSON_DISPUTED) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    return 0;
}
