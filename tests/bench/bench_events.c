/* SPDX-License-Identifier: Apache-2.0 */
/* Events from the bytes of a watch to the state, and that nothing is left behind. */
#include "bench.h"

#include "codec/reader_index.h"
#include "codec/stream.h"
#include "kube/listed.h"

#include <stdio.h>
#include <unistd.h>

#define PIECE_BYTES 16384 /* what libcurl hands over at a time */
#define BATCH       500u

static void event_write(const char *type, uint32_t number, uint32_t nodes, struct strbuf *out)
{
    strbuf_printf(out, "{\"type\":\"%s\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",", type);
    size_t before = out->len;
    object_write(OBJECT_FILE_RUNNING, number, nodes, out);
    out->data[before] = ' '; /* its own brace */
    strbuf_puts(out, "}\n");
}

static int take_line(void *self, struct str line)
{
    struct fleet *fleet = self;
    struct arena mem;
    struct watch_event event;
    struct error err = {0};
    AUTO_INDEX index;
    reader_index_begin(&index, NULL);
    arena_init(&mem, 0);
    must(watch_decode(line, &mem, &event, &err) == 0, err.text);
    const struct listed *listed = &listed_table[CACHE_PODS];
    int rc = (event.type == WATCH_DELETED ? listed->gone : listed->changed)(
        &fleet->sched, event.object, &mem, &err);
    must(rc == 0 && err.text[0] == '\0', err.text);
    arena_done(&mem);
    return 0;
}

static void feed(struct fleet *fleet, struct line_cutter *cutter, const struct strbuf *bytes)
{
    struct error err = {0};
    for (size_t at = 0; at < bytes->len; at += PIECE_BYTES) {
        size_t length = bytes->len - at < PIECE_BYTES ? bytes->len - at : PIECE_BYTES;
        must(line_cutter_feed(cutter, bytes->data + at, length, take_line, fleet, &err) == 0,
             err.text);
    }
}

/* A batch of pods that come, change and go. */
struct batch {
    struct strbuf added, modified, deleted;
};

static void batch_make(const struct fleet *fleet, uint32_t first, struct batch *batch)
{
    for (uint32_t i = first; i < first + BATCH; i++) {
        event_write("ADDED", i, fleet->nodes, &batch->added);
        event_write("MODIFIED", i, fleet->nodes, &batch->modified);
        event_write("DELETED", i, fleet->nodes, &batch->deleted);
    }
}

static void batch_free(struct batch *batch)
{
    strbuf_done(&batch->added);
    strbuf_done(&batch->modified);
    strbuf_done(&batch->deleted);
}

static uint32_t bound(const struct fleet *fleet)
{
    struct cache_counts counts;
    cache_count(fleet->cache, &counts);
    return counts.bound;
}

static void measure(struct fleet *fleet, struct line_cutter *cutter, const char *name,
                    const struct strbuf *bytes)
{
    int64_t begun = thread_cpu_ns();
    feed(fleet, cutter, bytes);
    sample(name, (double)(thread_cpu_ns() - begun) / BATCH);
}

void bench_events(const struct scale *scale)
{
    struct fleet fleet;
    struct line_cutter cutter;
    struct batch batch = {0};
    fleet_fill(&fleet, scale, (struct port){0});
    line_cutter_init(&cutter, 1u << 24);
    batch_make(&fleet, scale->pods, &batch);
    for (uint32_t round = 0; round < scale->rounds; round++) {
        measure(&fleet, &cutter, "event ns, added", &batch.added);
        must(bound(&fleet) == scale->pods + BATCH, "pods were added");
        measure(&fleet, &cutter, "event ns, modified", &batch.modified);
        must(bound(&fleet) == scale->pods + BATCH, "pods were modified");
        measure(&fleet, &cutter, "event ns, deleted", &batch.deleted);
        must(bound(&fleet) == scale->pods, "pods were deleted");
    }
    batch_free(&batch);
    line_cutter_done(&cutter);
    fleet_done(&fleet);
}

static double rss_kib(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    must(file != NULL && fscanf(file, "%ld %ld", &size, &resident) == 2, "/proc/self/statm");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* `calls` pods come and go in each round: the memory after each. */
void bench_cycles(const struct scale *scale)
{
    struct fleet fleet;
    struct line_cutter cutter;
    fleet_fill(&fleet, scale, (struct port){0});
    line_cutter_init(&cutter, 1u << 24);
    for (uint32_t round = 0; round <= scale->rounds; round++) {
        for (uint32_t done = 0; done < scale->calls; done += BATCH) {
            struct batch batch = {0};
            batch_make(&fleet, scale->pods + (round * scale->calls + done) % 9000000, &batch);
            feed(&fleet, &cutter, &batch.added);
            feed(&fleet, &cutter, &batch.deleted);
            batch_free(&batch);
        }
        must(bound(&fleet) == scale->pods, "every pod that came is gone");
        sample(round == 0 ? "cycles KiB, before" : "cycles KiB, after", rss_kib());
    }
    line_cutter_done(&cutter);
    fleet_done(&fleet);
}
