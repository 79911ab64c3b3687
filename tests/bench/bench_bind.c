/* SPDX-License-Identifier: Apache-2.0 */
/* Bind on both sides of the one outward call, which is played by the linker's --wrap here. */
#include "bench.h"

#include "codec/extender.h"
#include "kube/binder.h"
#include "kube/client.h"

#include <stdio.h>

static int64_t out_ns, back_ns;
static bool has_annotation;

int __wrap_kube_client_send(struct kube_client *client, const struct kube_request *request,
                            struct strbuf *ret_body, struct kube_response *ret_response,
                            struct error *err);
int __wrap_kube_client_send(struct kube_client *client, const struct kube_request *request,
                            struct strbuf *ret_body, struct kube_response *ret_response,
                            struct error *err)
{
    out_ns = thread_cpu_ns();
    (void)client, (void)err;
    must(request->may_send == NULL || request->may_send(request->may_send_self), "fenced");
    struct strbuf body = {0};
    strbuf_add_str(&body, request->body);
    has_annotation = strstr(body.data, "device-allocated") != NULL;
    strbuf_done(&body);
    strbuf_puts(ret_body, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                          "\"status\":\"Success\",\"code\":201}");
    *ret_response = (struct kube_response){.status = 201, .retry_after_ms = -1, .sent = true};
    back_ns = thread_cpu_ns();
    return 0;
}

/* A pending pod comes and is bound: what both parts took. */
static void bind_one(struct fleet *fleet, uint32_t number, int64_t *before, int64_t *after)
{
    struct strbuf json = {0}, uid = {0}, node = {0};
    object_write(OBJECT_FILE_PENDING, number, fleet->nodes, &json);
    fleet_tell(fleet, CACHE_PODS, (struct str){json.data, json.len});
    pod_uid_write(number, &uid);
    node_name_write(number % fleet->nodes, &node);
    char name[32];
    snprintf(name, sizeof name, "worker-%07u", number);

    struct bind_call call = {
        .pod = {STR("team-a"), str_from(name), {uid.data, uid.len}},
        .node = {node.data, node.len},
    };
    struct arena mem;
    struct error err = {0};
    arena_init(&mem, 0);
    has_annotation = false;
    int64_t begun = thread_cpu_ns();
    int rc = sched_bind(&fleet->sched, &call, &mem, &err);
    *after = thread_cpu_ns() - back_ns;
    *before = out_ns - begun;
    must(rc == 0, err.text);
    must(has_annotation, "the binding has no annotation");
    arena_done(&mem);
    sched_pod_gone(&fleet->sched, call.pod.uid);
    strbuf_done(&json);
    strbuf_done(&uid);
    strbuf_done(&node);
}

void bench_bind(const struct scale *scale)
{
    struct api_access access = {.server = "http://127.0.0.1:1"};
    struct fence fence;
    struct binder *binder;
    struct error err = {0};
    struct fleet fleet;
    kube_global_init();
    fence_init(&fence, clock_system(), 1000, 1000);
    fence_no_election(&fence);
    fence_open(&fence);
    struct binder_options options = {.access = &access, .clients = 1, .bind_timeout_ms = 1000,
                                     .delivery_timeout_ms = 1000, .fence = &fence};
    must(binder_new(&options, &binder, &err) == 0, err.text);
    fleet_fill(&fleet, scale, binder_port(binder));
    for (uint32_t i = 0; i < scale->rounds * scale->calls; i++) {
        int64_t before, after;
        bind_one(&fleet, 9000000 + i, &before, &after);
        sample("bind ns, before the call", (double)before);
        sample("bind ns, after the call", (double)after);
    }
    binder_free(binder);
    fleet_done(&fleet);
    fence_done(&fence);
}
