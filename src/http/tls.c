/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/tls_material.h"
#include "http/tls_session.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#define NS_PER_S INT64_C(1000000000)

#define LOOK_EVERY_NS  NS_PER_S
#define JUDGE_EVERY_NS (60 * NS_PER_S)

enum { CERT, KEY, CLIENT_CA, FILES };

/* What tells one state of a file from the next. */
struct stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct stamps {
    struct stamp of[FILES];
};

struct tls {
    char *paths[FILES];
    struct tls_names allowed;

    _Atomic int64_t look_at_ns; /* the files, not before */
    pthread_mutex_t look_lock;  /* one looks; never waited for with `lock` held */
    struct stamps seen;         /* under look_lock: when they were read last */

    pthread_mutex_t lock; /* the rest */
    struct tls_material *material;
    uint64_t generation;
    bool files_bad; /* what they hold now was refused */
};

static int64_t now_ns(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock);
}

/* ---- looking at the files ---- */

/* A file that is not there has no stamp: all zero. */
static struct stamps look(const struct tls *tls)
{
    struct stamps stamps = {0};
    for (unsigned i = 0; i < FILES; i++) {
        struct stat state;
        if (tls->paths[i][0] == '\0' || stat(tls->paths[i], &state) != 0)
            continue;
        /* Of the two times the one that nobody can set back. */
        stamps.of[i] = (struct stamp){state.st_dev, state.st_ino, state.st_size, state.st_ctim};
    }
    return stamps;
}

static bool same_stamp(const struct stamp *a, const struct stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static bool same_stamps(const struct stamps *a, const struct stamps *b)
{
    bool same = true;
    for (unsigned i = 0; i < FILES; i++)
        same = same && same_stamp(&a->of[i], &b->of[i]);
    return same;
}

static int load(const struct tls *tls, struct tls_material **ret, struct error *err)
{
    struct tls_paths paths = {tls->paths[CERT], tls->paths[KEY], tls->paths[CLIENT_CA]};
    return tls_material_load(&paths, time(NULL), ret, err);
}

/* Take over new material, or remember that there is none (NULL). */
static void swap(struct tls *tls, struct tls_material *fresh)
{
    pthread_mutex_lock(&tls->lock);
    struct tls_material *old = NULL;
    tls->files_bad = fresh == NULL;
    if (fresh != NULL) {
        fresh->generation = ++tls->generation;
        old = tls->material;
        tls->material = fresh;
    }
    pthread_mutex_unlock(&tls->lock);
    tls_material_unref(old);
}

static void reload_locked(struct tls *tls, const struct stamps *stamps)
{
    struct tls_material *fresh = NULL;
    struct error err = {0};
    int rc = load(tls, &fresh, &err);
    if (rc == -ENOMEM) {
        log_error("TLS files not read, tried again in a second", LOG_TEXT("err", err.text));
        return;
    }
    tls->seen = *stamps;
    if (rc < 0)
        log_error("TLS files invalid, the old ones stay in use", LOG_TEXT("err", err.text));
    else
        log_info(0, "TLS files loaded", LOG_TEXT("certFile", tls->paths[CERT]),
                 LOG_INT("expiresInHours", (fresh->expires - time(NULL)) / 3600));
    swap(tls, fresh);
}

/* Read the files again if they changed. Files that change while they are read are found changed
 * the next time: the stamps are from before. */
static void refresh(struct tls *tls)
{
    int64_t now = now_ns();
    if (now < atomic_load(&tls->look_at_ns) || pthread_mutex_trylock(&tls->look_lock) != 0)
        return;
    atomic_store(&tls->look_at_ns, now + LOOK_EVERY_NS);
    struct stamps stamps = look(tls);
    if (!same_stamps(&stamps, &tls->seen))
        reload_locked(tls, &stamps);
    pthread_mutex_unlock(&tls->look_lock);
}

struct tls_material *tls_current(struct tls *tls)
{
    refresh(tls);
    pthread_mutex_lock(&tls->lock);
    struct tls_material *material = tls_material_ref(tls->material);
    pthread_mutex_unlock(&tls->lock);
    return material;
}

bool tls_healthy(struct tls *tls)
{
    refresh(tls);
    pthread_mutex_lock(&tls->lock);
    bool healthy = !tls->files_bad && tls->material->expires >= time(NULL);
    pthread_mutex_unlock(&tls->lock);
    return healthy;
}

bool tls_asks_clients(const struct tls *tls)
{
    return tls->paths[CLIENT_CA][0] != '\0';
}

void tls_judge(struct tls *tls, gnutls_session_t session, struct tls_peer *peer)
{
    struct tls_material *material = tls_current(tls);
    int64_t now = now_ns();
    if (material->generation != peer->generation || now - peer->judged_at_ns > JUDGE_EVERY_NS) {
        tls_peer_judge(peer, session, material->client_ca, &tls->allowed);
        peer->generation = material->generation;
        peer->judged_at_ns = now;
    }
    tls_material_unref(material);
}

/* ---- opening ---- */

static char *copy(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copied = mem_calloc(size, 1);
    if (copied != NULL)
        memcpy(copied, text, size);
    return copied;
}

static bool copy_names(struct tls_names *names, const struct tls_options *options)
{
    if (options->allowed_count == 0)
        return true;
    names->items = mem_calloc(options->allowed_count, sizeof(*names->items));
    if (names->items == NULL)
        return false;
    for (; names->count < options->allowed_count; names->count++) {
        names->items[names->count] = copy(options->allowed[names->count]);
        if (names->items[names->count] == NULL)
            return false;
    }
    return true;
}

static bool copy_options(struct tls *tls, const struct tls_options *options)
{
    const char *const paths[FILES] = {options->cert_file, options->key_file,
                                      options->client_ca_file};
    for (unsigned i = 0; i < FILES; i++) {
        tls->paths[i] = copy(paths[i]);
        if (tls->paths[i] == NULL)
            return false;
    }
    return copy_names(&tls->allowed, options);
}

int tls_open(const struct tls_options *options, struct tls **ret, struct error *err)
{
    struct tls *tls = mem_calloc(1, sizeof(*tls));
    if (tls == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    pthread_mutex_init(&tls->look_lock, NULL);
    pthread_mutex_init(&tls->lock, NULL);
    int rc = copy_options(tls, options) ? 0 : error_set(err, -ENOMEM, "out of memory");
    if (rc == 0) {
        tls->seen = look(tls);
        rc = load(tls, &tls->material, err);
    }
    if (rc < 0) {
        tls_close(tls);
        return rc;
    }
    tls->material->generation = ++tls->generation;
    atomic_store(&tls->look_at_ns, now_ns() + LOOK_EVERY_NS);
    *ret = tls;
    return 0;
}

void tls_close(struct tls *tls)
{
    if (tls == NULL)
        return;
    tls_material_unref(tls->material);
    for (unsigned i = 0; i < FILES; i++)
        mem_free(tls->paths[i]);
    for (uint32_t i = 0; i < tls->allowed.count; i++)
        mem_free(tls->allowed.items[i]);
    mem_free(tls->allowed.items);
    pthread_mutex_destroy(&tls->look_lock);
    pthread_mutex_destroy(&tls->lock);
    mem_free(tls);
}
