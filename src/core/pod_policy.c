/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pod_policy.h"

#include <errno.h>
#include <stddef.h>

#define SHOWN_BYTES 64 /* of a value, in a sentence */
#define SHOW(s)     (int)((s).len < SHOWN_BYTES ? (s).len : SHOWN_BYTES), (s).data

enum policy_strength policy_strength_find(struct str name)
{
    if (str_is(name, "prefer"))
        return STRENGTH_PREFER;
    return str_is(name, "require") ? STRENGTH_REQUIRE : STRENGTH_UNSAID;
}

const char *policy_strength_names(void)
{
    return "prefer|require";
}

static int unknown(const char *key, struct str value, const char *names, struct error *err)
{
    return error_set(err, -EINVAL, "%s: \"%.*s\" is none of %s", key, SHOW(value), names);
}

/* Two annotations that may say the same thing do not. */
static int contradiction(const char *key, struct str value, const char *other_key, struct str other,
                         struct error *err)
{
    return error_set(err, -EINVAL, "%s: \"%.*s\" contradicts %s: \"%.*s\"", key, SHOW(value),
                     other_key, SHOW(other));
}

/* Of HAMi's words only these two mean what ours mean. */
static bool shared_word(struct str word)
{
    return str_is(word, "binpack") || str_is(word, "spread");
}

static int read_node(const struct policy_words *words, struct pod_policy *policy, uint32_t *ignored,
                     struct error *err)
{
    const struct node_policy *theirs = NULL;
    if (words->node.data != NULL && (policy->node = node_policy_find(words->node)) == NULL)
        return unknown(ANNOTATION_NODE_POLICY, words->node, node_policy_names(), err);
    if (words->hami_node.data == NULL)
        return 0;
    if (shared_word(words->hami_node))
        theirs = node_policy_find(words->hami_node);
    else
        ++*ignored;
    if (theirs != NULL && policy->node != NULL && theirs != policy->node)
        return contradiction(ANNOTATION_NODE_POLICY, words->node, ANNOTATION_HAMI_NODE_POLICY,
                             words->hami_node, err);
    policy->node = policy->node != NULL ? policy->node : theirs;
    return 0;
}

static int read_device(const struct policy_words *words, struct pod_policy *policy,
                       uint32_t *ignored, struct error *err)
{
    const struct device_policy *theirs = NULL;
    if (words->device.data != NULL && (policy->device = device_policy_find(words->device)) == NULL)
        return unknown(ANNOTATION_DEVICE_POLICY, words->device, device_policy_names(), err);
    if (words->hami_device.data == NULL)
        return 0;
    if (shared_word(words->hami_device))
        theirs = device_policy_find(words->hami_device);
    else
        ++*ignored;
    if (theirs != NULL && policy->device != NULL && theirs != policy->device)
        return contradiction(ANNOTATION_DEVICE_POLICY, words->device, ANNOTATION_HAMI_DEVICE_POLICY,
                             words->hami_device, err);
    policy->device = policy->device != NULL ? policy->device : theirs;
    return 0;
}

static int read_strength(const struct policy_words *words, struct pod_policy *policy,
                         struct error *err)
{
    if (words->strength.data == NULL)
        return 0;
    policy->strength = policy_strength_find(words->strength);
    if (policy->strength == STRENGTH_UNSAID)
        return unknown(ANNOTATION_NODE_POLICY_STRENGTH, words->strength, policy_strength_names(),
                       err);
    return 0;
}

int pod_policy_read(const struct policy_words *words, struct pod_policy *ret, uint32_t *ret_ignored,
                    struct error *err)
{
    struct pod_policy policy = {0};
    uint32_t ignored = 0;
    int rc = read_node(words, &policy, &ignored, err);
    if (rc == 0)
        rc = read_device(words, &policy, &ignored, err);
    if (rc == 0)
        rc = read_strength(words, &policy, err);
    *ret = rc == 0 ? policy : (struct pod_policy){.invalid = true};
    *ret_ignored = ignored;
    return rc;
}

void pod_policy_fill(struct pod_policy *policy, const struct pod_policy *more)
{
    if (more->invalid)
        return;
    if (policy->node == NULL)
        policy->node = more->node;
    if (policy->device == NULL)
        policy->device = more->device;
    if (policy->strength == STRENGTH_UNSAID)
        policy->strength = more->strength;
}
