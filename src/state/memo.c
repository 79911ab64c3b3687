/* SPDX-License-Identifier: Apache-2.0 */
#include "state/memo.h"

#include <string.h>

#include "base/mem.h"

static void forget(struct memo *memo)
{
    mem_free(memo->detail);
    mem_free(memo->entries);
    mem_free(memo->weighed);
    *memo = (struct memo){0};
}

/* Keep the request, and have entries that say nothing. False when memory ends. */
static bool begin(struct memo *memo, const struct pod_request *request,
                  const struct node_policy *policy, const struct host_amount *host, uint32_t slots)
{
    forget(memo);
    if (slots == 0)
        return false;
    memo->entries = mem_calloc(slots, sizeof *memo->entries);
    if (memo->entries != NULL && request->detail != NULL)
        memo->detail = mem_calloc(gpu_detail_size(request->detail), 1);
    if (memo->entries == NULL || (request->detail != NULL && memo->detail == NULL)) {
        forget(memo);
        return false;
    }
    memo->request = *request;
    if (memo->detail != NULL)
        memo->request.detail = gpu_detail_copy(request->detail, memo->detail);
    memo->policy = policy;
    memo->host = *host;
    memo->capacity = slots;
    if (policy != NULL && policy->weigh != NULL)
        memo->weighed = mem_calloc(slots, sizeof *memo->weighed);
    return true;
}

struct memo *memos_find(struct memos *memos, const struct pod_request *request,
                        const struct node_policy *policy, const struct host_amount *host,
                        uint32_t slots)
{
    static const struct host_amount none;
    if (policy == NULL || policy->weigh == NULL || host == NULL)
        host = &none;
    struct memo *oldest = &memos->of[0], *found = NULL;
    for (struct memo *memo = memos->of; memo < memos->of + MEMOS && found == NULL; memo++) {
        if (memo->used > 0 && memo->policy == policy && request_eq(&memo->request, request) &&
            memo->host.cpu_milli == host->cpu_milli &&
            memo->host.memory_bytes == host->memory_bytes)
            found = memo;
        if (memo->used < oldest->used)
            oldest = memo;
    }
    if (found == NULL || found->capacity < slots) {
        found = found != NULL ? found : oldest;
        if (!begin(found, request, policy, host, slots))
            return NULL;
    }
    found->used = ++memos->uses;
    return found;
}

void memos_forget(struct memos *memos)
{
    for (unsigned i = 0; i < MEMOS; i++)
        forget(&memos->of[i]);
}

void memos_done(struct memos *memos)
{
    memos_forget(memos);
}
