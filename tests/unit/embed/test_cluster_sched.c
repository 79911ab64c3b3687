/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/cluster.h"

#include "base/mem.h"
#include "codec/annotation.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The cluster and the real sched as each other's other side. */

struct house {
    struct cache *cache;
    struct cluster *cluster;
    struct sched sched;
    struct arena mem;
};

static void open_house(struct house *house)
{
    house->cache = cache_new(UNKNOWN_PODS_CLOSE);
    house->cluster = cluster_new();
    assert_non_null(house->cache);
    assert_non_null(house->cluster);
    sched_init(&house->sched, house->cache, clock_system(), cluster_port(house->cluster),
               device_policy_find(STR("default")), node_policy_find(STR("spread")));
    cluster_attach(house->cluster, &house->sched);
    arena_init(&house->mem, 0);
    sched_set_synced(&house->sched, true);
}

static void close_house(struct house *house)
{
    cluster_free(house->cluster);
    cache_free(house->cache);
    arena_done(&house->mem);
}

static void apply(struct house *house, const char *text)
{
    struct error err;

    if (cluster_apply(house->cluster, str_from(text), "t.yaml", NULL, &err) < 0)
        fail_msg("%s", err.text);
}

static const char node_and_device[] =
    "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\n"
    "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Device\nmetadata: {name: n}\n"
    "spec:\n  devices:\n"
    "  - {type: gpu, minor: 0, health: true, id: GPU-0, resources: {koordinator.sh/gpu-core: 100, "
    "koordinator.sh/gpu-memory: 16Gi, koordinator.sh/gpu-memory-ratio: 100}}\n";

static void apply_pod(struct house *house, const char *name, int percent)
{
    char text[256];

    snprintf(text, sizeof text,
             "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: %s}\nspec:\n  containers:\n"
             "  - {name: c, resources: {limits: {koordinator.sh/gpu: %d}}}\n",
             name, name, percent);
    apply(house, text);
}

static int bind_pod(struct house *house, const char *name, struct error *err)
{
    struct bind_call call = {
        .pod = {.ns = STR("default"), .name = str_from(name), .uid = str_from(name)},
        .node = STR("n")};

    return sched_bind(&house->sched, &call, &house->mem, err);
}

static struct pod get_pod(struct house *house, const char *name)
{
    struct port port = cluster_port(house->cluster);
    struct pod_id id = {.ns = STR("default"), .name = str_from(name)};
    struct error err;
    struct pod pod;

    if (port.get_pod(port.self, &id, &house->mem, &pod, &err) < 0)
        fail_msg("%s", err.text);
    return pod;
}

static void cards_are_taken_and_given_back(void **state)
{
    struct house house;
    struct error err;
    struct pod pod;

    (void)state;
    open_house(&house);
    apply(&house, node_and_device);
    apply_pod(&house, "a", 60);
    apply_pod(&house, "b", 60);
    if (bind_pod(&house, "a", &err) < 0)
        fail_msg("%s", err.text);
    pod = get_pod(&house, "a");
    assert_true(str_is(pod.node_name, "n"));
    assert_int_equal(pod.annotation, ANNOTATION_READ);
    assert_int_equal(pod.share_count, 1);
    assert_int_equal(pod.shares[0].amount.percent, 60);
    assert_int_equal(pod.shares[0].amount.bytes, (INT64_C(16) << 30) * 60 / 100);
    assert_int_equal(bind_pod(&house, "b", &err), -ENOSPC);

    /* Applying the same manifest again gives nothing back ... */
    apply_pod(&house, "a", 60);
    assert_int_equal(bind_pod(&house, "b", &err), -ENOSPC);
    /* ... but the end of the pod does. */
    apply(&house, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {phase: Succeeded}\n");
    assert_int_equal(bind_pod(&house, "b", &err), 0);
    assert_int_equal(cluster_delete(house.cluster, STR("Pod"), STR("default"), STR("b"), &err), 0);
    apply_pod(&house, "c", 100);
    assert_int_equal(bind_pod(&house, "c", &err), 0);
    close_house(&house);
}

/* What a cluster dumped, a second one schedules by: a restart. */
static void a_dump_keeps_the_bookings(void **state)
{
    struct house house, after;
    struct strbuf text;
    struct error err;

    (void)state;
    open_house(&house);
    open_house(&after);
    strbuf_init(&text);
    apply(&house, node_and_device);
    apply_pod(&house, "a", 60);
    apply_pod(&house, "b", 60);
    apply_pod(&house, "c", 40);
    assert_int_equal(bind_pod(&house, "a", &err), 0);
    assert_int_equal(cluster_dump_yaml(house.cluster, &text, &err), 0);

    apply(&after, text.data);
    assert_int_equal(bind_pod(&after, "b", &err), -ENOSPC);
    assert_int_equal(bind_pod(&after, "c", &err), 0);
    strbuf_done(&text);
    close_house(&house);
    close_house(&after);
}

/* ---- threads ---- */

#define PODS 40

static void *apply_and_dump(void *data)
{
    struct house *house = data;

    for (int i = 0; i < PODS; i++) {
        struct strbuf out;
        struct error err;

        strbuf_init(&out);
        if (cluster_apply(house->cluster, STR(node_and_device), "t.yaml", NULL, &err) < 0 ||
            cluster_dump_json(house->cluster, &out, &err) < 0)
            return data;
        strbuf_done(&out);
    }
    return NULL;
}

/* Bind and delete, in a thread of its own arena. */
static void *bind_and_delete(void *data)
{
    struct house *house = data;
    struct arena mem;
    void *failed = NULL;

    arena_init(&mem, 0);
    for (int i = 0; i < PODS && failed == NULL; i++) {
        char name[16];
        struct bind_call call = {.pod = {.ns = STR("default")}, .node = STR("n")};
        struct error err;

        snprintf(name, sizeof name, "p%d", i);
        call.pod.name = call.pod.uid = str_from(name);
        if (sched_bind(&house->sched, &call, &mem, &err) < 0 ||
            cluster_delete(house->cluster, STR("Pod"), STR("default"), str_from(name), &err) < 0)
            failed = data;
    }
    arena_done(&mem);
    return failed;
}

/* Changes and binds at the same time neither deadlock nor lose a card: each pod takes the whole
 * one. */
static void threads_do_not_meet(void **state)
{
    struct house house;
    pthread_t threads[2];
    void *failed[2];

    (void)state;
    open_house(&house);
    apply(&house, node_and_device);
    for (int i = 0; i < PODS; i++) {
        char name[16];

        snprintf(name, sizeof name, "p%d", i);
        apply_pod(&house, name, 100);
    }
    assert_int_equal(pthread_create(&threads[0], NULL, apply_and_dump, &house), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, bind_and_delete, &house), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &failed[i]);
        assert_null(failed[i]);
    }
    close_house(&house);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_are_taken_and_given_back),
        cmocka_unit_test(a_dump_keeps_the_bookings),
        cmocka_unit_test(threads_do_not_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
