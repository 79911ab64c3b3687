/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SIM_FILES_H
#define TESTS_SIM_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/trace.h"

/* Write `text` to a new file and its name to `path`, which has room for 64 bytes. */
static inline void file_write(char *path, const char *text)
{
    strcpy(path, "/tmp/sim-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* Read a trace from these texts, of CSV or of `other`; returns what trace_read does. */
static inline int trace_from_other(const char *nodes, const char *pods,
                                   const struct trace_format *other, struct trace *ret,
                                   struct error *err)
{
    char nodes_path[64], pods_path[64];
    file_write(nodes_path, nodes);
    file_write(pods_path, pods);
    int rc = trace_read(nodes_path, pods_path, other, ret, err);
    unlink(nodes_path);
    unlink(pods_path);
    return rc;
}

/* The same of CSV alone. */
static inline int trace_from(const char *nodes, const char *pods, struct trace *ret,
                             struct error *err)
{
    return trace_from_other(nodes, pods, NULL, ret, err);
}

#endif
