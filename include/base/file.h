/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"

/* Append a whole file to `out`, which is as it was on failure. A file above `max_bytes` is -EFBIG;
 * else 0, the errno of open or read as a negative code with "PATH: sentence", or -ENOMEM. */
int file_read(const char *path, size_t max_bytes, struct strbuf *out, struct error *err);

#endif
