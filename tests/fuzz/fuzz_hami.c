/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "codec/hami.h"
#include "core/hami.h"
#include "state/cache.h"

/*
 * HAMi's annotations. The first byte says whose: a node's registration, or, with a number and roles of
 * containers, what a pod has. What is read lies in bounds, the cache takes it, and written in the same form
 * it is read back as the same.
 */

#define MIB_MAX        (CARD_BYTES_MAX / MIB)
#define CONTAINERS_MAX 4

static bool same_device(const struct device *a, const struct device *b)
{
    return a->minor == b->minor && a->healthy == b->healthy && a->slots == b->slots &&
           a->total.percent == b->total.percent && a->total.ratio == b->total.ratio &&
           a->total.bytes == b->total.bytes && str_eq(a->id, b->id) && str_eq(a->model, b->model);
}

/* ---- a registration ---- */

static void must_be_cards(const struct inventory *inventory)
{
    MUST(inventory->count > 0 && inventory->count <= CARDS_PER_NODE_MAX);
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct device *device = &inventory->devices[i];
        MUST(device->kind == DEVICE_GPU && device->minor >= 0);
        MUST(device->id.len > 0 && device->id.len <= DEVICE_ID_MAX);
        MUST(device->model.len <= DEVICE_MODEL_MAX && device->total.ratio == 100);
        MUST(device->total.percent >= 0 && device->total.percent <= CARD_PERCENT_MAX);
        MUST(device->total.bytes >= 0 && device->total.bytes <= CARD_BYTES_MAX);
        MUST(device->slots > 0 || !device->healthy);
        for (uint32_t j = 0; j < i; j++)
            MUST(inventory->devices[j].minor != device->minor &&
                 !str_eq(inventory->devices[j].id, device->id));
    }
}

static void must_be_taken(const struct inventory *inventory)
{
    struct cache *cache = cache_new(UNKNOWN_PODS_CLOSE);
    struct cache_counts counts;
    struct error err;
    MUST(cache != NULL && cache_node_set(cache, &(struct node_facts){.name = STR("n")}) == 0);
    MUST(cache_registration_set(cache, STR("n"), inventory, &err) == 0);
    cache_count(cache, &counts);
    MUST(counts.cards == inventory->count && cache_check(cache, &err) == 0);
    cache_free(cache);
}

static void write_json(const struct inventory *inventory, struct strbuf *out)
{
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct device *device = &inventory->devices[i];
        strbuf_puts(out, i == 0 ? "[{\"id\":" : ",{\"id\":");
        strbuf_json_string(out, device->id);
        strbuf_puts(out, ",\"type\":");
        strbuf_json_string(out, device->model);
        strbuf_printf(out, ",\"index\":%d,\"count\":%u,\"devmem\":%lld,\"devcore\":%lld,\"health\":%s}",
                      device->minor, device->slots, (long long)(device->total.bytes / MIB),
                      (long long)device->total.percent, device->healthy ? "true" : "false");
    }
    strbuf_putc(out, ']');
}

/* An empty card first: without it an id may begin as a list does. */
static void write_old(const struct inventory *inventory, struct strbuf *out)
{
    strbuf_putc(out, ':');
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct device *device = &inventory->devices[i];
        strbuf_add_str(out, device->id);
        strbuf_printf(out, ",%u,%lld,%lld,", device->slots, (long long)(device->total.bytes / MIB),
                      (long long)device->total.percent);
        strbuf_add_str(out, device->model);
        strbuf_printf(out, ",0,%s,%d,:", device->healthy ? "true" : "false", device->minor);
    }
}

/* Of a text that was read, which is therefore not all blanks. */
static bool is_list(struct str text)
{
    size_t blanks = 0;
    while (text.data[blanks] == ' ' || text.data[blanks] == '\t' || text.data[blanks] == '\r' ||
           text.data[blanks] == '\n')
        blanks++;
    return text.data[blanks] == '[';
}

static void fuzz_registration(struct str text, struct arena *mem)
{
    struct inventory inventory, again;
    struct error err = {0};
    int rc = hami_register_parse(text, mem, &inventory, &err);
    MUST(rc == 0 || (rc == -EINVAL && err.text[0] != '\0'));
    if (rc < 0)
        return;
    must_be_cards(&inventory);
    must_be_taken(&inventory);
    struct strbuf out = {0};
    (is_list(text) ? write_json : write_old)(&inventory, &out);
    MUST(!out.failed);
    MUST(hami_register_parse((struct str){out.data, out.len}, mem, &again, &err) == 0);
    MUST(again.count == inventory.count);
    for (uint32_t i = 0; i < again.count; i++)
        MUST(same_device(&again.devices[i], &inventory.devices[i]));
    strbuf_done(&out);
}

/* ---- what a pod has ---- */

/* All that the text gives of one card, whoever has it and when, with C's own functions. */
static void add_up(struct str text, struct str id, int64_t *ret_mib, int64_t *ret_most)
{
    char *copy = calloc(text.len + 1, 1), *rest = copy, *card;
    *ret_mib = *ret_most = 0;
    MUST(copy != NULL);
    memcpy(copy, text.data, text.len);
    while ((card = strsep(&rest, ":;")) != NULL) {
        const char *name = strsep(&card, ","), *type = strsep(&card, ",");
        if (type == NULL || strcmp(type, "NVIDIA") != 0 || !str_eq(str_from(name), id))
            continue;
        int64_t mib = atoll(card);
        *ret_mib += mib;
        *ret_most = mib > *ret_most ? mib : *ret_most;
    }
    free(copy);
}

static void must_be_named(struct str text, const struct named_share *named, uint32_t count)
{
    MUST(count <= CARDS_PER_POD_MAX);
    for (uint32_t i = 0; i < count; i++) {
        int64_t mib, most;
        MUST(named[i].id.len > 0 && named[i].id.len <= DEVICE_ID_MAX);
        MUST(named[i].mib >= 0 && named[i].mib <= MIB_MAX);
        MUST(named[i].percent >= 0 && named[i].percent <= CARD_PERCENT_MAX);
        MUST(named[i].beside < CARDS_PER_POD_MAX);
        for (uint32_t j = 0; j < i; j++)
            MUST(!str_eq(named[i].id, named[j].id));
        add_up(text, named[i].id, &mib, &most);
        MUST(most <= named[i].mib && named[i].mib <= mib);
    }
}

/* All of it once more, as that of one container. */
static void must_be_read_back(const struct named_share *named, uint32_t count, struct arena *mem)
{
    static const struct container one;
    static struct placement placement;
    const struct named_share *again;
    uint32_t again_count;
    struct error err;
    struct strbuf out = {0};
    placement.container_count = 1;
    placement.count = placement.part_count = count;
    for (uint32_t i = 0; i < count; i++) {
        snprintf(placement.cards[i].id, sizeof placement.cards[i].id, "%.*s",
                 STR_ARG(named[i].id));
        placement.parts[i] = (struct placed_part){
            .card = i, .amount = {.percent = named[i].percent, .bytes = named[i].mib * MIB}};
    }
    hami_allocated_format(&placement, &out);
    MUST(!out.failed);
    MUST(hami_allocated_parse((struct str){out.data, out.len}, &one, 1, mem, &again, &again_count,
                              &err) == 0);
    MUST(again_count == count);
    for (uint32_t i = 0; i < count; i++)
        MUST(str_eq(again[i].id, named[i].id) && again[i].mib == named[i].mib &&
             again[i].percent == named[i].percent && again[i].beside == 0);
    strbuf_done(&out);
}

static void fuzz_allocation(unsigned choices, struct str text, struct arena *mem)
{
    struct container containers[CONTAINERS_MAX] = {0};
    uint32_t container_count = choices % (CONTAINERS_MAX + 1), count;
    const struct named_share *named;
    struct error err = {0};
    for (uint32_t i = 0; i < container_count; i++)
        containers[i].role = (enum container_role)((choices >> (3 + i)) % 3);
    int rc = hami_allocated_parse(text, containers, container_count, mem, &named, &count, &err);
    MUST(rc == 0 || (rc == -EINVAL && err.text[0] != '\0'));
    /* C's texts end with a NUL, and none is in an annotation. */
    if (rc < 0 || memchr(text.data, '\0', text.len) != NULL)
        return;
    must_be_named(text, named, count);
    must_be_read_back(named, count, mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena mem;
    if (size == 0)
        return 0;
    arena_init(&mem, 0);
    struct str text = {(const char *)data + 1, size - 1};
    if (data[0] % 2 == 0)
        fuzz_registration(text, &mem);
    else
        fuzz_allocation(data[0] / 2, text, &mem);
    arena_done(&mem);
    return 0;
}
