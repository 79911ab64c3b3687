/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "codec/annotation.h"

/* The allocation annotation: what is read lies in bounds and in order, and what we write of it is read back as
 * the same. */

static void must_be_shares(const struct share *shares, uint32_t count)
{
    MUST(count <= CARDS_PER_POD_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct share *share = &shares[i], *before = i > 0 ? share - 1 : NULL;
        MUST(share->kind < DEVICE_KIND_MAX && share->minor >= 0);
        MUST(before == NULL || before->kind < share->kind ||
             (before->kind == share->kind && before->minor < share->minor));
        MUST(share->amount.percent >= 0 && share->amount.percent <= CARD_PERCENT_MAX);
        MUST(share->amount.ratio >= 0 && share->amount.ratio <= CARD_PERCENT_MAX);
        MUST(share->amount.bytes >= 0 && share->amount.bytes <= CARD_BYTES_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena mem;
    struct error err = {0};
    const struct share *shares, *again;
    uint32_t count, again_count;
    arena_init(&mem, 0);
    int rc = annotation_parse((struct str){(const char *)data, size}, &mem, &shares, &count, &err);
    MUST(rc == 0 || (rc == -EINVAL && err.text[0] != '\0'));
    if (rc == 0) {
        static struct placement placement;
        struct strbuf out = {0}, visible = {0};
        must_be_shares(shares, count);
        placement.count = count;
        for (uint32_t i = 0; i < count; i++)
            placement.cards[i] = (struct placed_card){.share = shares[i]};
        annotation_format(&placement, &out);
        annotation_format_visible(&placement, &visible);
        MUST(!out.failed && !visible.failed);
        MUST(annotation_parse((struct str){out.data, out.len}, &mem, &again, &again_count, &err) == 0);
        MUST(again_count == count);
        for (uint32_t i = 0; i < count; i++)
            MUST(again[i].kind == shares[i].kind && again[i].minor == shares[i].minor &&
                 again[i].amount.percent == shares[i].amount.percent &&
                 again[i].amount.ratio == shares[i].amount.ratio &&
                 again[i].amount.bytes == shares[i].amount.bytes);
        strbuf_done(&out);
        strbuf_done(&visible);
    }
    arena_done(&mem);
    return 0;
}
