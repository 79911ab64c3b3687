/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "codec/objects.h"
#include "codec/stream.h"

/* A watch: four bytes decide how the text comes in pieces. Any split gives the same lines; each line is read
 * as an event, and its object as everything it could be. */

enum { LINE_MAX_BYTES = 8192 };

static void read_object(struct str json, struct arena *mem)
{
    struct object_head head;
    struct pod pod;
    struct inventory inventory;
    struct str node;
    uint32_t skipped;
    struct error err = {0};
    if (object_decode_pod(json, mem, &pod, &err) == 0) {
        MUST(pod.share_count <= CARDS_PER_POD_MAX);
        MUST(pod.annotation == ANNOTATION_READ || pod.share_count == 0);
        MUST(object_decode_pod_place(json, mem, &pod, &err) == 0);
        MUST(pod.request_problem.len > 0);
    }
    if (object_decode_device(json, mem, &node, &inventory, &skipped, &err) == 0) {
        for (uint32_t i = 0; i < inventory.count; i++) {
            const struct device *device = &inventory.devices[i];
            MUST(device->kind < DEVICE_KIND_MAX && device->id.len <= DEVICE_ID_MAX);
            MUST(device->total.percent >= 0 && device->total.percent <= CARD_PERCENT_MAX);
            MUST(device->total.ratio >= 0 && device->total.ratio <= CARD_PERCENT_MAX);
            MUST(device->total.bytes >= 0 && device->total.bytes <= CARD_BYTES_MAX);
        }
    }
    if (object_head(json, mem, &head, &err) == 0)
        MUST(head.kind == KIND_LIST || object_identity(json, mem, &head, &err) == 0);
}

static int read_line(void *self, struct str line)
{
    struct strbuf *lines = self;
    struct arena mem;
    struct watch_event event;
    struct error err = {0};
    arena_init(&mem, 0);
    MUST(line.len > 0 && line.len <= LINE_MAX_BYTES && memchr(line.data, '\n', line.len) == NULL);
    int rc = watch_decode(line, &mem, &event, &err);
    MUST(rc == 0 || ((rc == -EINVAL || rc == -E2BIG) && err.text[0] != '\0'));
    if (rc == 0)
        read_object(event.object, &mem);
    strbuf_add_str(lines, line);
    strbuf_putc(lines, '\n');
    arena_done(&mem);
    return 0;
}

static int keep_line(void *self, struct str line)
{
    strbuf_add_str(self, line);
    strbuf_putc(self, '\n');
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct splitter splitter = splitter_init(data, size);
    struct str whole = splitter.rest, piece;
    struct line_cutter cutter;
    struct strbuf at_once = {0}, in_pieces = {0};
    struct error err;

    line_cutter_init(&cutter, LINE_MAX_BYTES);
    int whole_rc = line_cutter_feed(&cutter, whole.data, whole.len, read_line, &at_once, &err);
    line_cutter_done(&cutter);

    int rc = 0;
    line_cutter_init(&cutter, LINE_MAX_BYTES);
    while (rc == 0 && splitter_next(&splitter, &piece))
        rc = line_cutter_feed(&cutter, piece.data, piece.len, keep_line, &in_pieces, &err);
    line_cutter_done(&cutter);

    MUST(rc == whole_rc);
    MUST(str_eq((struct str){at_once.data, at_once.len}, (struct str){in_pieces.data, in_pieces.len}));
    strbuf_done(&at_once);
    strbuf_done(&in_pieces);
    return 0;
}
