/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>

#include "base/strbuf.h"
#include "config/config.h"
#include "config/keys.h"

/* The configuration file: problems are named, and what is taken is printed as a file that says the same. */

static struct config config, again; /* large */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct strbuf problems = {0}, printed = {0};
    int rc = config_parse((struct str){(const char *)data, size}, "x.yaml", &config, &problems);
    MUST(rc == 0 || rc == -EINVAL);
    MUST((rc == 0) == (problems.len == 0));
    if (rc == 0) {
        struct error err;
        MUST(config_check(&config, &err) == 0);
        config_print(&config, &printed);
        MUST(!printed.failed);
        MUST(config_parse((struct str){printed.data, printed.len}, "printed", &again, &problems) == 0);
        for (uint32_t i = 0; i < config_key_count; i++)
            MUST(config_key_equal(&config_keys[i], &config, &again));
    } else {
        MUST(strncmp(problems.data, "x.yaml:", 7) == 0);
        MUST(problems.data[problems.len - 1] == '\n');
    }
    strbuf_done(&problems);
    strbuf_done(&printed);
    return 0;
}
