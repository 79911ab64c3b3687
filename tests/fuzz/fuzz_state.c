/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "cache_model.h"

/* The state machine: the bytes decide which events and verbs come, and on whom; the naive model says what must
 * be. One byte a choice, four where there are more than 256. The world is small: few cards are fought over. */

struct bytes {
    const uint8_t *at, *end;
};

static uint32_t below(void *self, uint32_t bound)
{
    struct bytes *bytes = self;
    uint32_t value = 0;
    for (int i = 0; i < (bound > 256 ? 4 : 1); i++)
        value = value << 8 | (bytes->at < bytes->end ? *bytes->at++ : 0);
    return value % bound;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, data + size};
    cache_model_begin((struct choices){below, &bytes}, 3, 8);
    while (bytes.at < bytes.end)
        cache_model_step();
    cache_model_compare();
    cache_model_end();
    return 0;
}
