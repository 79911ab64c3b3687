/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/requests.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "codec/objects.h"
#include "test_arena.h"

/* ---- pods/binding ---- */

static const struct pod_id pod_id = {STR("team"), STR("train-0"), STR("11-22")};

static void add_card(struct placement *placement, enum device_kind kind, int32_t minor,
                     const char *id)
{
    struct placed_card *card = &placement->cards[placement->count++];
    *card =
        (struct placed_card){.share = {.kind = kind, .minor = minor, .amount = {50, 50, 1 << 30}}};
    if (kind != DEVICE_GPU)
        card->share.amount = (struct amount){.percent = 50};
    memcpy(card->id, id, strlen(id) + 1);
}

static void binding_carries_uid_and_annotations(void **state)
{
    (void)state;
    static struct placement placement;
    struct strbuf out = {0};
    uint32_t bytes = 7;
    placement.count = 0;
    add_card(&placement, DEVICE_GPU, 1, "GPU-\"x\"");
    request_binding(&pod_id, STR("node-1"), &placement, &out, &bytes);
    assert_string_equal(
        out.data, "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"train-0\","
                  "\"namespace\":\"team\",\"uid\":\"11-22\",\"annotations\":{"
                  "\"scheduling.koordinator.sh/device-allocated\":\"{\\\"gpu\\\":[{\\\"minor\\\":1,"
                  "\\\"resources\\\":{\\\"koordinator.sh/gpu-core\\\":\\\"50\\\","
                  "\\\"koordinator.sh/gpu-memory\\\":\\\"1Gi\\\",\\\"koordinator.sh/"
                  "gpu-memory-ratio\\\":\\\"50\\\"},"
                  "\\\"id\\\":\\\"GPU-\\\\\\\"x\\\\\\\"\\\"}]}\","
                  "\"deviceshare.io/visible-devices\":\"GPU-\\\"x\\\"\"}},"
                  "\"target\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"node-1\"}}");
    strbuf_done(&out);

    /* What was counted is what an API server would count once it is stored. */
    struct pod pod;
    struct error err;
    struct strbuf stored = {0};
    request_binding(&pod_id, STR("node-1"), &placement, &stored, &bytes);
    assert_int_equal(object_decode_pod((struct str){stored.data, stored.len}, &mem, &pod, &err), 0);
    assert_int_equal(pod.annotation_bytes, bytes);
    assert_int_equal(pod.annotation, ANNOTATION_READ);
    strbuf_done(&stored);
}

static void binding_without_gpu_or_without_cards(void **state)
{
    (void)state;
    static struct placement placement;
    struct strbuf out = {0};
    uint32_t bytes = 7;
    placement.count = 0;
    request_binding(&pod_id, STR("n"), &placement, &out, &bytes);
    assert_null(strstr(out.data, "annotations"));
    assert_int_equal(bytes, 0);
    out.len = 0;
    add_card(&placement, DEVICE_RDMA, 0, "");
    request_binding(&pod_id, STR("n"), &placement, &out, &bytes);
    assert_non_null(strstr(out.data, "device-allocated"));
    assert_null(strstr(out.data, "visible-devices"));
    assert_null(strstr(out.data, ",}"));
    strbuf_done(&out);
}

static void memory_that_ends_is_seen(void **state)
{
    (void)state;
    static struct placement placement;
    placement.count = 0;
    add_card(&placement, DEVICE_GPU, 1, "GPU-1");
    uint32_t bytes;
    unsigned failures = 0;
    for (long n = 1;; n++) {
        struct strbuf out = {0};
        mem_fail_at(n);
        request_binding(&pod_id, STR("n"), &placement, &out, &bytes);
        bool reached = mem_count() >= n;
        mem_fail_at(0);
        assert_int_equal(out.failed, reached);
        strbuf_done(&out);
        if (!reached)
            break;
        failures++;
    }
    assert_true(failures > 3);
}

/* ---- the pod's own annotations ---- */

static uint32_t counted(const char *annotations)
{
    struct strbuf json = {0};
    struct pod pod;
    struct error err = {0};
    strbuf_printf(&json, "{\"metadata\":{\"annotations\":%s}}", annotations);
    if (object_decode_pod((struct str){json.data, json.len}, &mem, &pod, &err) < 0)
        fail_msg("%s", err.text);
    strbuf_done(&json);
    return pod.annotation_bytes;
}

static void annotations_of_a_pod_are_counted_as_stored(void **state)
{
    (void)state;
    assert_int_equal(counted("null"), 0);
    assert_int_equal(counted("{}"), 0);
    assert_int_equal(counted("{\"ab\":\"cde\",\"f\":\"\"}"), 6);
    /* Escapes count as what they mean: 1, 1, 1, 2 (U+00E9), 3 (U+20AC), 4 (U+1F600), 3 (lone
     * surrogate). */
    assert_int_equal(counted("{\"k\":\"\\\"\\n\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\ud800\"}"),
                     1 + 15);
    assert_int_equal(counted("{\"k\\\"\":\"\xc3\xa9\"}"), 4);
    assert_int_equal(counted("{\"k\":7,\"l\":null}"), 2);
}

/* ---- merge patches ---- */

static void patches(void **state)
{
    (void)state;
    struct strbuf out = {0};
    request_patch(STR("11-22"), PATCH_ANNOTATION, "a/b", STR("x\"y"), &out);
    assert_string_equal(out.data,
                        "{\"metadata\":{\"uid\":\"11-22\",\"annotations\":{\"a/b\":\"x\\\"y\"}}}");
    out.len = 0;
    request_patch((struct str){0}, PATCH_LABEL, "l", (struct str){0}, &out);
    assert_string_equal(out.data, "{\"metadata\":{\"labels\":{\"l\":null}}}");
    out.len = 0;
    request_patch((struct str){0}, PATCH_LABEL, "l", STR(""), &out);
    assert_string_equal(out.data, "{\"metadata\":{\"labels\":{\"l\":\"\"}}}");
    strbuf_done(&out);
}

/* ---- SelfSubjectAccessReview ---- */

static void access_reviews(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct access_question question = {
        .verb = "create", .group = "", .resource = "pods", .subresource = "binding"};
    request_access_review(&question, &out);
    assert_string_equal(
        out.data,
        "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
        "\"spec\":{\"resourceAttributes\":{\"verb\":\"create\",\"group\":\"\","
        "\"resource\":\"pods\",\"subresource\":\"binding\"}}}");
    out.len = 0;
    question = (struct access_question){
        .verb = "get", .group = "coordination.k8s.io", .resource = "leases", .ns = "gpu-system"};
    request_access_review(&question, &out);
    assert_non_null(strstr(out.data, "\"resource\":\"leases\",\"namespace\":\"gpu-system\"}}}"));
    strbuf_done(&out);

    bool allowed = false;
    struct error err;
    assert_int_equal(access_review_decode(STR("{\"kind\":\"SelfSubjectAccessReview\",\"status\":"
                                              "{\"allowed\":true,\"reason\":\"RBAC\"}}"),
                                          &allowed, &err),
                     0);
    assert_true(allowed);
    assert_int_equal(access_review_decode(STR("{\"status\":{\"denied\":true}}"), &allowed, &err),
                     0);
    assert_false(allowed); /* omitempty */
    allowed = true;
    assert_int_equal(access_review_decode(STR("{\"spec\":{}}"), &allowed, &err), -EINVAL);
    assert_string_equal(err.text, "SelfSubjectAccessReview.status: must be given");
    assert_int_equal(access_review_decode(STR("{\"status\":{\"allowed\":1}}"), &allowed, &err),
                     -EINVAL);
    assert_int_equal(access_review_decode(STR("<html>"), &allowed, &err), -EINVAL);
    assert_int_equal(access_review_decode(STR("[]"), &allowed, NULL), -EINVAL);
    assert_true(allowed);
}

/* ---- Status ---- */

static void statuses(void **state)
{
    (void)state;
    struct status status;
    struct error err;
    assert_int_equal(
        status_decode(
            STR("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                "\"message\":\"Operation cannot be fulfilled on pods/binding \\\"p\\\": pod p is "
                "already assigned to node \\\"n\\\"\",\"reason\":\"Conflict\",\"details\":"
                "{\"name\":\"p\",\"kind\":\"pods/binding\"},\"code\":409}"),
            &mem, &status, &err),
        0);
    assert_false(status.success);
    assert_int_equal(status.code, 409);
    assert_true(str_is(status.reason, "Conflict"));
    assert_true(str_is(status.details_kind, "pods/binding"));
    assert_non_null(strstr(status.message.data, "already assigned to node \"n\""));
    assert_int_equal(status.cause.len, 0);

    assert_int_equal(status_decode(STR("{\"kind\":\"Status\",\"status\":\"Success\",\"code\":201}"),
                                   &mem, &status, &err),
                     0);
    assert_true(status.success);
    assert_int_equal(
        status_decode(STR("{\"kind\":\"Status\",\"status\":\"Failure\",\"details\":{\"causes\":"
                          "[{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"m\"},{}]}}"),
                      &mem, &status, &err),
        0);
    assert_true(str_is(status.cause, "ResourceVersionTooLarge"));
    assert_int_equal(status.code, 0);
    assert_int_equal(status_decode(STR("{\"kind\":\"Status\",\"details\":{\"causes\":[]}}"), &mem,
                                   &status, &err),
                     0);
}

static void other_texts_are_no_status(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "null",
        "{}",
        "Too many requests, please try again later.",
        "{\"kind\":\"Pod\"}",
        "{\"kind\":\"Status\",\"code\":\"201\"}",
        "{\"kind\":\"Status\",\"status\":{}}",
        "{\"kind\":\"Status\",\"details\":{\"causes\":[1]}}",
        "{\"kind\":\"Status\"",
        "{\"kind\":7}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct status status = {.code = 77};
        struct error err;
        assert_int_equal(status_decode(str_from(texts[i]), &mem, &status, &err), -EINVAL);
        assert_int_equal(status.code, 77);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, arena_setup, arena_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(binding_carries_uid_and_annotations),
        TEST(binding_without_gpu_or_without_cards),
        TEST(memory_that_ends_is_seen),
        TEST(annotations_of_a_pod_are_counted_as_stored),
        TEST(patches),
        TEST(access_reviews),
        TEST(statuses),
        TEST(other_texts_are_no_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
