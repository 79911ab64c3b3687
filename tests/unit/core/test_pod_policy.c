/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pod_policy.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint32_t ignored;

static struct pod_policy policy_of(struct policy_words words)
{
    struct pod_policy policy;
    struct error err = {0};
    if (pod_policy_read(&words, &policy, &ignored, &err) < 0)
        fail_msg("%s", err.text);
    assert_false(policy.invalid);
    return policy;
}

static void refuse(struct policy_words words, const char *sentence)
{
    struct pod_policy policy;
    struct error err = {0};
    assert_int_equal(pod_policy_read(&words, &policy, &ignored, &err), -EINVAL);
    assert_string_equal(err.text, sentence);
    assert_true(policy.invalid);
    assert_null(policy.node);
    assert_null(policy.device);
    assert_int_equal(policy.strength, STRENGTH_UNSAID);
}

static void test_nothing_said(void **state)
{
    (void)state;
    struct pod_policy policy = policy_of((struct policy_words){0});
    assert_null(policy.node);
    assert_null(policy.device);
    assert_int_equal(policy.strength, STRENGTH_UNSAID);
    assert_int_equal(ignored, 0);
}

static void test_each_word(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        const struct node_policy *policy;
    } nodes[] = {{"binpack", &node_policy_binpack},
                 {"spread", &node_policy_spread},
                 {"none", &node_policy_none}};
    static const struct {
        const char *word;
        const struct device_policy *policy;
    } devices[] = {{"default", &device_policy_default},
                   {"binpack", &device_policy_binpack},
                   {"spread", &device_policy_spread}};
    for (int i = 0; i < 3; i++) {
        struct policy_words words = {.node = str_from(nodes[i].word),
                                     .device = str_from(devices[i].word)};
        struct pod_policy policy = policy_of(words);
        assert_ptr_equal(policy.node, nodes[i].policy);
        assert_ptr_equal(policy.device, devices[i].policy);
    }
    assert_int_equal(policy_of((struct policy_words){.strength = STR("prefer")}).strength,
                     STRENGTH_PREFER);
    assert_int_equal(policy_of((struct policy_words){.strength = STR("require")}).strength,
                     STRENGTH_REQUIRE);
}

static void test_words_of_hami(void **state)
{
    (void)state;
    struct policy_words words = {.hami_node = STR("spread"), .hami_device = STR("binpack")};
    struct pod_policy policy = policy_of(words);
    assert_ptr_equal(policy.node, &node_policy_spread);
    assert_ptr_equal(policy.device, &device_policy_binpack);
    assert_int_equal(ignored, 0);
    words = (struct policy_words){.node = STR("spread"), .hami_node = STR("spread")};
    assert_ptr_equal(policy_of(words).node, &node_policy_spread);
    /* Words that mean nothing here: never refused, also beside ours; and ours are not HAMi's. */
    words = (struct policy_words){
        .node = STR("binpack"), .hami_node = STR("none"), .hami_device = STR("topology-aware")};
    policy = policy_of(words);
    assert_ptr_equal(policy.node, &node_policy_binpack);
    assert_null(policy.device);
    assert_int_equal(ignored, 2);
}

static void test_mistakes_of_the_owner(void **state)
{
    (void)state;
    refuse((struct policy_words){.node = STR("packed")},
           "deviceshare.io/node-policy: \"packed\" is none of binpack|spread|pack|none");
    refuse((struct policy_words){.node = STR("")},
           "deviceshare.io/node-policy: \"\" is none of binpack|spread|pack|none");
    refuse((struct policy_words){.node = STR("spread"), .device = STR("none")},
           "deviceshare.io/device-policy: \"none\" is none of default|binpack|spread|pack");
    refuse((struct policy_words){.strength = STR("must")},
           "deviceshare.io/node-policy-strength: \"must\" is none of prefer|require");
    refuse((struct policy_words){.node = STR("binpack"), .hami_node = STR("spread")},
           "deviceshare.io/node-policy: \"binpack\" contradicts "
           "hami.io/node-scheduler-policy: \"spread\"");
    refuse((struct policy_words){.device = STR("default"), .hami_device = STR("binpack")},
           "deviceshare.io/device-policy: \"default\" contradicts "
           "hami.io/gpu-scheduler-policy: \"binpack\"");
}

static void test_a_long_value_is_cut_in_the_sentence(void **state)
{
    (void)state;
    char word[5000];
    memset(word, 'x', sizeof word);
    struct policy_words words = {.node = {word, sizeof word}};
    struct pod_policy policy;
    struct error err = {0};
    assert_int_equal(pod_policy_read(&words, &policy, &ignored, &err), -EINVAL);
    assert_non_null(strstr(err.text, "xx\" is none of binpack|spread|pack|none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_said),
        cmocka_unit_test(test_each_word),
        cmocka_unit_test(test_words_of_hami),
        cmocka_unit_test(test_mistakes_of_the_owner),
        cmocka_unit_test(test_a_long_value_is_cut_in_the_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
