/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int read_all(int fd, const char *path, size_t max_bytes, struct strbuf *out,
                    struct error *err)
{
    char piece[4096];
    size_t total = 0;
    for (;;) {
        ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, -errno, "%s: %s", path, strerror(errno));
        if (got == 0)
            return 0;
        total += (size_t)got;
        if (total > max_bytes)
            return error_set(err, -EFBIG, "%s: larger than %zu bytes", path, max_bytes);
        strbuf_add(out, piece, (size_t)got);
        if (out->failed)
            return error_set(err, -ENOMEM, "%s: out of memory", path);
    }
}

int file_read(const char *path, size_t max_bytes, struct strbuf *out, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    size_t start = out->len;
    int rc = read_all(fd, path, max_bytes, out, err);
    close(fd);
    if (rc < 0 && out->data != NULL) {
        out->len = start;
        out->data[start] = '\0';
    }
    return rc;
}
