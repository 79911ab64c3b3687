/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/reflector_internal.h"

#include <errno.h>

#include "codec/stream.h"
#include "kube/query.h"

#define PAGE_TIMEOUT_MS 120000
#define PAGE_IDLE_MS    60000

struct page {
    struct reflector *reflector;
    struct list_cutter cutter;
    struct error err; /* of the cutter or of an item */
};

static int take_item(void *self, struct str json)
{
    struct page *page = self;
    int rc = reflector_tell(page->reflector, json, false);
    return rc < 0 ? error_set(&page->err, rc, "out of memory") : 0;
}

static int take_piece(void *self, const char *data, size_t len)
{
    struct page *page = self;
    reflector_heard(page->reflector);
    return list_cutter_feed(&page->cutter, data, len, take_item, page, &page->err);
}

static void page_path(const struct reflector *reflector, const struct strbuf *next,
                      struct strbuf *path)
{
    strbuf_puts(path, reflector->listed->path);
    strbuf_puts(path, "?limit=");
    strbuf_int(path, reflector->all->options.page_size);
    strbuf_puts(path, reflector->listed->selector);
    if (next->len > 0) {
        strbuf_puts(path, "&continue=");
        query_escape(path, (struct str){next->data, next->len});
    }
}

/* Fetch the page and tell its items. exchange->rc is 0 only with a complete page of status 200. */
static void fetch(struct page *page, const char *path, struct exchange *exchange)
{
    struct reflector *reflector = page->reflector;
    int64_t idle_ms = reflector->all->options.idle_timeout_ms;
    exchange->rc = kube_client_stream(reflector->client, path, PAGE_TIMEOUT_MS,
                                      idle_ms < PAGE_IDLE_MS ? idle_ms : PAGE_IDLE_MS, take_piece,
                                      page, &exchange->body, &exchange->response, &exchange->err);
    if (page->err.code != 0) /* the sentence from within says more */
        exchange->err = page->err;
    if (exchange->rc == 0 && exchange->response.status == 200)
        exchange->rc = list_cutter_end(&page->cutter, &exchange->err);
    if (exchange->rc == 0 && exchange->response.status == 200 &&
        page->cutter.resource_version.len == 0)
        exchange->rc = error_set(&exchange->err, -EINVAL, "the list has no resourceVersion");
}

static void swap(struct strbuf *a, struct strbuf *b)
{
    struct strbuf other = *a;
    *a = *b;
    *b = other;
}

/* One page: true when it is complete. Its own version goes to reflector->version if it is the
 * first; *next is where the following page begins, or empty. */
static bool list_page(struct reflector *reflector, struct strbuf *next, struct exchange *exchange)
{
    struct page page = {.reflector = reflector};
    struct strbuf path = {0};
    bool first = next->len == 0;
    list_cutter_init(&page.cutter, OBJECT_BYTES_MAX);
    page_path(reflector, next, &path);
    if (path.failed)
        exchange->rc = error_set(&exchange->err, -ENOMEM, "out of memory");
    else
        fetch(&page, path.data, exchange);
    strbuf_done(&path);

    bool complete = exchange->rc == 0 && exchange->response.status == 200;
    if (complete)
        swap(next, &page.cutter.next);
    if (complete && first)
        swap(&reflector->version, &page.cutter.resource_version);
    list_cutter_done(&page.cutter);
    return complete;
}

static bool list_pages(struct reflector *reflector, struct exchange *exchange)
{
    struct strbuf next = {0};
    bool complete;
    do {
        complete = list_page(reflector, &next, exchange);
    } while (complete && next.len > 0);
    strbuf_done(&next);
    return complete;
}

/* The state is that of a complete list which began after ticket `ticket` was drawn. */
static void list_done(struct reflector *reflector, uint64_t ticket)
{
    struct reflectors *all = reflector->all;
    bool synced = true;
    pthread_mutex_lock(&all->mutex);
    bool first = !reflector->status.synced;
    reflector->status.synced = true;
    reflector->status.lists++;
    reflector->status.trouble[0] = '\0';
    reflector->lists_done = ticket;
    for (unsigned i = 0; i < all->count; i++)
        synced &= all->of[i].status.synced;
    pthread_cond_broadcast(&all->listed);
    pthread_mutex_unlock(&all->mutex);
    if (first && synced)
        sched_set_synced(all->sched, true);
}

static uint64_t draw_ticket(struct reflector *reflector)
{
    pthread_mutex_lock(&reflector->all->mutex);
    uint64_t ticket = reflector->lists_wanted;
    pthread_mutex_unlock(&reflector->all->mutex);
    return ticket;
}

struct step reflector_list(struct reflector *reflector)
{
    struct sched *sched = reflector->all->sched;
    struct exchange exchange = {.response = {.retry_after_ms = -1}};
    uint64_t ticket = draw_ticket(reflector);
    uint32_t mark = sched_list_begin(sched, reflector->listed->kind);
    struct step step = {.kind = STEP_WATCH};
    if (list_pages(reflector, &exchange)) {
        sched_list_end(sched, reflector->listed->kind, mark);
        list_done(reflector, ticket);
    } else {
        step = reflector_failed(reflector, STEP_LIST, &exchange);
    }
    strbuf_done(&exchange.body);
    return step;
}
