/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include <errno.h>
#include <unistd.h>

#include <sys/mman.h>

#include "base/arena.h"
#include "config/kubeconfig.h"

/* A kubeconfig, read from a file in memory. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    struct arena mem;
    struct api_access access = {0};
    struct error err = {0};
    if (fd < 0) {
        fd = memfd_create("kubeconfig", MFD_CLOEXEC);
        MUST(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    arena_init(&mem, 0);
    int rc = kubeconfig_load(path, NULL, &mem, &access, &err);
    MUST(rc == 0 || (err.code == rc && strncmp(err.text, path, strlen(path)) == 0));
    MUST(rc == 0 || rc == -EINVAL || rc == -ENOENT);
    if (rc == 0)
        MUST(access.server != NULL && access.server[0] != '\0');
    arena_done(&mem);
    return 0;
}
