/* SPDX-License-Identifier: Apache-2.0 */
/* What it takes to receive the lists of an API server and throw them away, with the daemon's client. */
#include "bench.h"

#include "config/kubeconfig.h"
#include "kube/client.h"
#include "kube/listed.h"
#include "kube/query.h"

#include <stdio.h>
#include <time.h>

#define PAGE_SIZE "500"
#define HEAD_MAX  1024u /* metadata come first */

struct drain {
    struct strbuf head;
    uint64_t bytes;
};

static int throw_away(void *self, const char *data, size_t len)
{
    struct drain *drain = self;
    drain->bytes += len;
    if (drain->head.len < HEAD_MAX)
        strbuf_add(&drain->head, data, len < HEAD_MAX ? len : HEAD_MAX);
    return 0;
}

/* Where the next page begins, or false. */
static bool find_next(struct strbuf *head, struct strbuf *next)
{
    static const char key[] = "\"continue\":\"";
    const char *at = head->data != NULL ? strstr(head->data, key) : NULL;
    next->len = 0;
    if (at == NULL)
        return false;
    at += sizeof key - 1;
    query_escape(next, (struct str){at, strcspn(at, "\"")});
    return true;
}

static uint64_t drain_list(struct kube_client *client, const struct listed *listed)
{
    struct strbuf next = {0}, path = {0};
    uint64_t bytes = 0;
    bool more;
    do {
        struct drain drain = {0};
        struct kube_response response;
        struct strbuf body = {0};
        struct error err = {0};
        path.len = 0;
        strbuf_printf(&path, "%s?limit=" PAGE_SIZE "%s%s%s", listed->path, listed->selector,
                      next.len > 0 ? "&continue=" : "", next.len > 0 ? next.data : "");
        must(kube_client_stream(client, path.data, 60000, 60000, throw_away, &drain, &body,
                                &response, &err) == 0, err.text);
        must(response.status == 200, "the API server has no such list");
        bytes += drain.bytes;
        more = find_next(&drain.head, &next);
        strbuf_done(&drain.head);
        strbuf_done(&body);
    } while (more);
    strbuf_done(&next);
    strbuf_done(&path);
    return bytes;
}

static double wall_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void bench_drain(const char *kubeconfig, uint32_t rounds)
{
    struct arena mem;
    struct api_access access;
    struct error err = {0};
    arena_init(&mem, 0);
    kube_global_init();
    must(kubeconfig_load(kubeconfig, NULL, &mem, &access, &err) == 0, err.text);
    struct kube_client *client = kube_client_open(&access, 60000, &err);
    must(client != NULL, err.text);
    for (uint32_t round = 0; round < rounds; round++) {
        for (size_t kind = 0; kind < LISTED_COUNT; kind++) {
            char name[64];
            if (listed_table[kind].optional)
                continue;
            double begun = wall_s();
            int64_t cpu = process_cpu_ns();
            uint64_t bytes = drain_list(client, &listed_table[kind]);
            snprintf(name, sizeof name, "drain s, %s", listed_table[kind].name);
            sample(name, wall_s() - begun);
            snprintf(name, sizeof name, "drain CPU s, %s", listed_table[kind].name);
            sample(name, (double)(process_cpu_ns() - cpu) / 1e9);
            snprintf(name, sizeof name, "drain bytes, %s", listed_table[kind].name);
            sample(name, (double)bytes);
        }
    }
    kube_client_free(client);
    arena_done(&mem);
}
