/* SPDX-License-Identifier: Apache-2.0 */
#include "test_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void cache_free_sound(struct cache *cache)
{
    struct error err = {0};
    if (cache_check(cache, &err) < 0)
        fail_msg("%s", err.text);
    cache_free(cache);
}

struct pod_request gpus(int64_t count, int64_t percent)
{
    struct pod_request request = {0};
    request.of[DEVICE_GPU] = (struct device_request){
        .count = count,
        .each = {.percent = percent, .ratio = percent},
        .named = DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO),
        .whole = percent == 100,
    };
    return request;
}
