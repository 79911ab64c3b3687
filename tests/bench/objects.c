/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct strbuf files[4];

static void read_file(const char *directory, const char *name, struct strbuf *to)
{
    char path[1024], piece[4096];
    size_t got;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    must(file != NULL, "tests/bench/objects cannot be read");
    while ((got = fread(piece, 1, sizeof piece, file)) > 0)
        strbuf_add(to, piece, got);
    fclose(file);
    while (to->len > 0 && to->data[to->len - 1] == '\n')
        to->len--;
}

void objects_open(const char *directory)
{
    static const char *const names[] = {
        [OBJECT_FILE_NODE] = "node.json",
        [OBJECT_FILE_DEVICE] = "device.json",
        [OBJECT_FILE_RUNNING] = "pod-running.json",
        [OBJECT_FILE_PENDING] = "pod-pending.json",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        read_file(directory, names[i], &files[i]);
}

/* Marks: ~N a node's number, ~P a pod's, ~C the minor of its card, ~V a version. */
static void mark_write(char mark, uint32_t number, uint32_t nodes, struct strbuf *out)
{
    switch (mark) {
    case 'N':
        strbuf_printf(out, "%05" PRIu32, number % nodes);
        break;
    case 'P':
        strbuf_printf(out, "%07" PRIu32, number);
        break;
    case 'C':
        strbuf_printf(out, "%" PRIu32, number / nodes % FLEET_CARDS);
        break;
    default:
        strbuf_puts(out, "1000");
        break;
    }
}

void object_write(enum object_file file, uint32_t number, uint32_t nodes, struct strbuf *out)
{
    const char *at = files[file].data, *end = at + files[file].len;
    while (at < end) {
        const char *mark = memchr(at, '~', (size_t)(end - at));
        if (mark == NULL)
            mark = end;
        strbuf_add(out, at, (size_t)(mark - at));
        if (mark < end)
            mark_write(mark[1], number, nodes, out);
        at = mark < end ? mark + 2 : end;
    }
    must(!out->failed, "out of memory");
}

void node_name_write(uint32_t number, struct strbuf *out)
{
    strbuf_printf(out, "gpu-pool-a-node-%05" PRIu32, number);
}

void pod_uid_write(uint32_t number, struct strbuf *out)
{
    strbuf_printf(out, "5f0e7c1a-3b1d-4a55-9c0e-00000%07" PRIu32, number);
}

/* The pending pod, with other resources if told so. */
static void pending_write(uint32_t number, const char *limits, struct strbuf *out)
{
    static const char plain[] =
        "\"koordinator.sh/gpu-core\":\"10\",\"koordinator.sh/gpu-memory-ratio\":\"10\"";
    struct strbuf pod = {0};
    object_write(OBJECT_FILE_PENDING, number, 1, &pod);
    const char *at = pod.data, *found;
    while (limits != NULL && (found = strstr(at, plain)) != NULL) {
        strbuf_add(out, at, (size_t)(found - at));
        strbuf_puts(out, limits);
        at = found + sizeof plain - 1;
    }
    strbuf_puts(out, at);
    strbuf_done(&pod);
}

void call_write(uint32_t number, uint32_t nodes, const char *limits, struct strbuf *out)
{
    strbuf_puts(out, "{\"Pod\":");
    pending_write(number, limits, out);
    strbuf_puts(out, ",\"Nodes\":null,\"NodeNames\":[");
    for (uint32_t i = 0; i < nodes; i++) {
        strbuf_puts(out, i > 0 ? ",\"" : "\"");
        node_name_write(i, out);
        strbuf_putc(out, '"');
    }
    strbuf_puts(out, "]}");
    must(!out->failed, "out of memory");
}
