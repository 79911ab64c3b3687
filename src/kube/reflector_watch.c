/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/reflector_internal.h"

#include <errno.h>

#include "codec/reader_index.h"
#include "codec/stream.h"
#include "kube/query.h"

/* What the server may take beyond the time it was asked to end the watch after. */
#define TIMEOUT_SLACK_MS 30000
/* A watch that lived so long was no failure of the kind that pauses must grow for. */
#define LIVED_MS 5000
/* One that the server ends sooner than this without an event was none. */
#define SHORT_MS 1000

struct watch {
    struct reflector *reflector;
    struct line_cutter cutter;
    uint64_t events;
    bool stale; /* our version is too old, or cannot move past a line that is no event */
    struct error err;
};

static int move_version(struct reflector *reflector, struct str version)
{
    if (version.len == 0)
        return 0;
    struct strbuf *to = &reflector->version;
    if (!strbuf_reserve(to, version.len)) {
        to->failed = false; /* the old version is still there */
        return -ENOMEM;
    }
    to->len = 0;
    strbuf_add_str(to, version);
    return 0;
}

static int server_error(struct watch *watch, const struct watch_event *event)
{
    watch->stale = event->status_code == 410;
    return error_set(&watch->err, -EPROTO, "the server says %d %.*s", event->status_code,
                     STR_ARG(event->status_text));
}

static int tell(struct reflector *reflector, const struct watch_event *event)
{
    int rc = reflector_tell(reflector, event->object, event->type == WATCH_DELETED);
    pthread_mutex_lock(&reflector->all->mutex);
    reflector->status.events += rc == 0;
    pthread_mutex_unlock(&reflector->all->mutex);
    return rc;
}

static int apply(struct watch *watch, const struct watch_event *event)
{
    struct reflector *reflector = watch->reflector;
    int rc = 0;
    if (event->type == WATCH_ERROR)
        return server_error(watch, event);
    if (event->type != WATCH_BOOKMARK)
        rc = tell(reflector, event);
    /* Not before the event is told: if memory ended, it is asked for again. */
    if (rc == 0)
        rc = move_version(reflector, event->resource_version);
    watch->events++;
    return rc < 0 ? error_set(&watch->err, rc, "out of memory") : 0;
}

static int take_line(void *self, struct str line)
{
    struct watch *watch = self;
    struct arena mem;
    struct watch_event event;
    AUTO_INDEX index;
    reader_index_begin(&index, NULL);
    arena_init(&mem, 0);
    int rc = watch_decode(line, &mem, &event, &watch->err);
    if (rc == 0)
        rc = apply(watch, &event);
    else
        watch->stale = rc != -ENOMEM;
    arena_done(&mem);
    return rc;
}

static int take_piece(void *self, const char *data, size_t len)
{
    struct watch *watch = self;
    reflector_heard(watch->reflector);
    int rc = line_cutter_feed(&watch->cutter, data, len, take_line, watch, &watch->err);
    if (rc == -E2BIG)
        watch->stale = true;
    return rc;
}

/* Seconds that the server is asked to watch for: by chance, so that watches do not end together. */
static int64_t choose_seconds(struct reflector *reflector)
{
    int64_t least_ms = reflector->all->options.watch_timeout_ms;
    int64_t seconds = backoff_between(&reflector->backoff, least_ms, 2 * least_ms) / 1000;
    return seconds > 0 ? seconds : 1;
}

static void watch_path(const struct reflector *reflector, int64_t seconds, struct strbuf *path)
{
    strbuf_puts(path, reflector->listed->path);
    strbuf_puts(path, "?watch=1&allowWatchBookmarks=true&timeoutSeconds=");
    strbuf_int(path, seconds);
    strbuf_puts(path, reflector->listed->selector);
    strbuf_puts(path, "&resourceVersion=");
    query_escape(path, (struct str){reflector->version.data, reflector->version.len});
}

static void run(struct watch *watch, struct exchange *exchange)
{
    struct reflector *reflector = watch->reflector;
    struct strbuf path = {0};
    int64_t seconds = choose_seconds(reflector);
    watch_path(reflector, seconds, &path);
    if (path.failed)
        exchange->rc = error_set(&exchange->err, -ENOMEM, "out of memory");
    else
        exchange->rc =
            kube_client_stream(reflector->client, path.data, seconds * 1000 + TIMEOUT_SLACK_MS,
                               reflector->all->options.idle_timeout_ms, take_piece, watch,
                               &exchange->body, &exchange->response, &exchange->err);
    if (watch->err.code != 0) /* the sentence from within says more */
        exchange->err = watch->err;
    strbuf_done(&path);
}

static void went_well(struct reflector *reflector)
{
    backoff_reset(&reflector->backoff);
    backoff_reset(&reflector->relist);
}

/* The server ended the watch in order, as it does when the time it was asked for is over. */
static struct step ended(const struct watch *watch, int64_t lived_ms)
{
    struct reflector *reflector = watch->reflector;
    if (watch->events > 0 || lived_ms >= SHORT_MS) {
        went_well(reflector);
        return (struct step){.kind = STEP_WATCH};
    }
    reflector_trouble(reflector, "cannot watch %s: the server ends each watch at once",
                      reflector->listed->resource);
    return (struct step){.kind = STEP_WATCH, .pause_ms = backoff_next_ms(&reflector->backoff)};
}

static struct step judge(const struct watch *watch, struct exchange *exchange, int64_t lived_ms)
{
    if (exchange->rc == 0 && exchange->response.status == 200)
        return ended(watch, lived_ms);
    if (lived_ms >= LIVED_MS)
        went_well(watch->reflector);
    exchange->stale = watch->stale;
    return reflector_failed(watch->reflector, STEP_WATCH, exchange);
}

struct step reflector_watch(struct reflector *reflector)
{
    struct watch watch = {.reflector = reflector};
    struct exchange exchange = {.response = {.retry_after_ms = -1}};
    int64_t begun_ms = reflector_now_ms();
    line_cutter_init(&watch.cutter, OBJECT_BYTES_MAX);
    run(&watch, &exchange);
    struct step step = judge(&watch, &exchange, reflector_now_ms() - begun_ms);
    line_cutter_done(&watch.cutter);
    strbuf_done(&exchange.body);
    return step;
}
