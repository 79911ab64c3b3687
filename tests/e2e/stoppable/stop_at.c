/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon of the crash stories: the objects of deviceshare-extender, in which the linker leads a
 * few calls of a bind through here first (ld --wrap). The daemon that is shipped has none of this.
 *
 * DEVICESHARE_STOP_AT=STEP:SIGNAL sends itself SIGNAL (KILL or STOP) the first time that a bind
 * comes to STEP:
 *
 *   booked     the cards are booked, nothing else is done
 *   checked    the fence allowed the binding, and the next thing would be to send it
 *   answered   the API server has answered, nobody here has looked at it
 *   confirmed  the booking is confirmed, kube-scheduler does not know
 *
 * "Sent, and not answered" is for the stage's proxy to arrange.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kube/client.h"
#include "kube/fence.h"
#include "state/cache.h"

/* Whether this thread is in the call that writes a binding. */
static _Thread_local bool in_binding;

static void come_to(const char *step)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    const char *wanted = getenv("DEVICESHARE_STOP_AT");
    size_t len = strlen(step);
    if (wanted == NULL || strncmp(wanted, step, len) != 0 || wanted[len] != ':')
        return;
    if (!atomic_flag_test_and_set(&done))
        raise(strcmp(wanted + len, ":STOP") == 0 ? SIGSTOP : SIGKILL);
}

enum book_result __real_cache_book(struct cache *cache, struct str uid, struct str node,
                                   const struct device_policy *policy,
                                   struct placement *ret_placement, enum reason *ret_reason);
enum book_result __wrap_cache_book(struct cache *cache, struct str uid, struct str node,
                                   const struct device_policy *policy,
                                   struct placement *ret_placement, enum reason *ret_reason);

enum book_result __wrap_cache_book(struct cache *cache, struct str uid, struct str node,
                                   const struct device_policy *policy,
                                   struct placement *ret_placement, enum reason *ret_reason)
{
    enum book_result result =
        __real_cache_book(cache, uid, node, policy, ret_placement, ret_reason);
    if (result == BOOK_OK)
        come_to("booked");
    return result;
}

const char *__real_fence_reason_for(struct fence *fence, uint64_t permit);
const char *__wrap_fence_reason_for(struct fence *fence, uint64_t permit);

const char *__wrap_fence_reason_for(struct fence *fence, uint64_t permit)
{
    const char *reason = __real_fence_reason_for(fence, permit);
    if (in_binding && reason == NULL)
        come_to("checked");
    return reason;
}

int __real_kube_client_send(struct kube_client *client, const struct kube_request *request,
                            struct strbuf *body, struct kube_response *ret, struct error *err);
int __wrap_kube_client_send(struct kube_client *client, const struct kube_request *request,
                            struct strbuf *body, struct kube_response *ret, struct error *err);

int __wrap_kube_client_send(struct kube_client *client, const struct kube_request *request,
                            struct strbuf *body, struct kube_response *ret, struct error *err)
{
    bool binds = strcmp(request->method, "POST") == 0 && strstr(request->path, "/binding?") != NULL;
    in_binding = binds;
    int rc = __real_kube_client_send(client, request, body, ret, err);
    in_binding = false;
    if (binds && rc == 0)
        come_to("answered");
    return rc;
}

void __real_cache_confirm(struct cache *cache, struct str uid);
void __wrap_cache_confirm(struct cache *cache, struct str uid);

void __wrap_cache_confirm(struct cache *cache, struct str uid)
{
    __real_cache_confirm(cache, uid);
    come_to("confirmed");
}
