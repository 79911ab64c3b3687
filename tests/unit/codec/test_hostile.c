/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "body.h"
#include "codec/annotation.h"
#include "codec/extender.h"
#include "codec/objects.h"

/*
 * Every decoder on every text that a sample becomes by cutting it short or by changing one byte,
 * and with every single allocation failing. Results are only looked at for sense: sanitizers do the
 * rest.
 */

typedef int (*decoder)(struct str text, struct arena *mem, struct error *err);

static int decode_candidates(struct str text, struct arena *mem, struct error *err)
{
    struct candidates_call call;
    return extender_decode_candidates(text, &codec_default_limits, NULL, mem, &call, err);
}

static int decode_preempt(struct str text, struct arena *mem, struct error *err)
{
    struct preempt_call call;
    return extender_decode_preempt(text, &codec_default_limits, mem, &call, err);
}

static int decode_bind(struct str text, struct arena *mem, struct error *err)
{
    struct bind_call call;
    return extender_decode_bind(text, &codec_default_limits, mem, &call, err);
}

static int decode_filter_result(struct str text, struct arena *mem, struct error *err)
{
    struct filter_result result;
    return extender_decode_filter_result(text, mem, &result, err);
}

static int decode_priorities(struct str text, struct arena *mem, struct error *err)
{
    const struct str *hosts;
    const int64_t *scores;
    uint32_t count;
    return extender_decode_priorities(text, mem, &hosts, &scores, &count, err);
}

static int decode_bind_result(struct str text, struct arena *mem, struct error *err)
{
    struct str sentence;
    return extender_decode_bind_result(text, mem, &sentence, err);
}

static int decode_annotation(struct str text, struct arena *mem, struct error *err)
{
    const struct share *shares;
    uint32_t count;
    return annotation_parse(text, mem, &shares, &count, err);
}

static int decode_head(struct str text, struct arena *mem, struct error *err)
{
    struct object_head head;
    return object_head(text, mem, &head, err);
}

static int decode_list(struct str text, struct arena *mem, struct error *err)
{
    const struct str *items;
    uint32_t count;
    return object_list_items(text, mem, &items, &count, err);
}

static int decode_pod(struct str text, struct arena *mem, struct error *err)
{
    struct pod pod;
    return object_decode_pod(text, mem, &pod, err);
}

static int decode_device(struct str text, struct arena *mem, struct error *err)
{
    struct str node;
    struct inventory inventory;
    uint32_t skipped;
    int rc = object_decode_device(text, mem, &node, &inventory, &skipped, err);
    assert_true(rc != 0 || skipped <= 5);
    return rc;
}

static int find_annotation(struct str text, struct arena *mem, struct error *err)
{
    struct str value;
    return object_annotation(text, "example.com/ctrl", mem, &value, err);
}

static int default_pod(struct str text, struct arena *mem, struct error *err)
{
    (void)mem;
    struct strbuf out = {0};
    int rc = object_default_pod(text, STR("u"), STR("t"), &out, err);
    strbuf_done(&out);
    return rc;
}

static int default_meta(struct str text, struct arena *mem, struct error *err)
{
    (void)mem;
    struct strbuf out = {0};
    int rc = object_default_meta(text, STR("u"), STR("t"), &out, err);
    strbuf_done(&out);
    return rc;
}

static int bind_pod(struct str text, struct arena *mem, struct error *err)
{
    (void)mem;
    const struct str key = STR("a"), value = STR("b");
    struct strbuf out = {0};
    int rc = object_bind_pod(text, STR("n"), &key, &value, 1, &out, err);
    strbuf_done(&out);
    return rc;
}

#define POD_TEXT                                                                                   \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","          \
    "\"annotations\":{"                                                                            \
    "\"scheduling.koordinator.sh/"                                                                 \
    "device-allocated\":\"{\\\"gpu\\\":[{\\\"minor\\\":4,\\\"resources\\\":"                       \
    "{\\\"koordinator.sh/gpu-core\\\":\\\"25\\\"}}]}\",\"example.com/ctrl\":\"\\ud83d\\ude80\"}}," \
    "\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/"           \
    "gpu\":\"2\"}}}],"                                                                             \
    "\"initContainers\":[{\"name\":\"i\",\"restartPolicy\":\"Always\"}],\"overhead\":{\"cpu\":1}," \
    "\"priority\":3},"                                                                             \
    "\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\"}]}}"
#define DEVICE_TEXT                                                                                \
    "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"devices\":[{\"type\":\"gpu\",\"id\":\"GPU-a\","   \
    "\"minor\":0,"                                                                                 \
    "\"health\":true,\"resources\":{\"koordinator.sh/"                                             \
    "gpu-memory\":\"16Gi\"}},{\"type\":\"rdma\",\"minor\":1}]}}"
#define ANNOTATION_TEXT                                                                            \
    "{\"gpu\":[{\"minor\":3,\"resources\":{\"koordinator.sh/gpu-core\":\"50\",\"koordinator.sh/"   \
    "gpu-memory\":"                                                                                \
    "\"23034Mi\"},\"id\":\"GPU-5\"},{\"minor\":3,\"resources\":{\"koordinator.sh/"                 \
    "gpu-core\":1e1}}],\"rdma\":[]}"

static const struct sample {
    decoder decode;
    const char *file; /* or NULL for text */
    struct str text;
} samples[] = {
    {decode_candidates, "filter-names-min.json", {0}},
    {decode_candidates, "filter-names-odd-pod.json", {0}},
    {decode_candidates, "filter-nodes-full.json", {0}},
    {decode_candidates, "filter-names-5000.json", {0}},
    {decode_preempt, "preempt-meta.json", {0}},
    {decode_preempt, "preempt-full.json", {0}},
    {decode_bind, "bind.json", {0}},
    {decode_filter_result, NULL,
     STR("{\"Nodes\":null,\"NodeNames\":[\"a\",\"\\u00e9\"],\"FailedNodes\":{\"b\":\"t\"},"
         "\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}")},
    {decode_priorities, NULL, STR("[{\"Host\":\"a\",\"Score\":10},{\"Host\":\"b\",\"Score\":-3}]")},
    {decode_bind_result, NULL, STR("{\"Error\":\"no\"}")},
    {decode_annotation, NULL, STR(ANNOTATION_TEXT)},
    {decode_head, NULL, STR(POD_TEXT)},
    {decode_list, NULL, STR("{\"kind\":\"List\",\"items\":[{\"a\":[]},null,7]}")},
    {decode_pod, NULL, STR(POD_TEXT)},
    {decode_device, NULL, STR(DEVICE_TEXT)},
    {find_annotation, NULL, STR(POD_TEXT)},
    {default_pod, NULL, STR(POD_TEXT)},
    {default_meta, NULL, STR(DEVICE_TEXT)},
    {bind_pod, NULL, STR(POD_TEXT)},
};

enum { SAMPLES = sizeof(samples) / sizeof(samples[0]), SMALL_BYTES = 2000, MIDDLE_BYTES = 8000 };

static struct str open_sample(const struct sample *sample)
{
    if (sample->file == NULL)
        return body_copy(sample->text);
    char path[256];
    snprintf(path, sizeof(path), "tests/data/extender/requests/%s", sample->file);
    return body_read(path);
}

/* Decode a text that may be anything. A failure has a code and a sentence that says where. */
static int run(const struct sample *sample, struct str text)
{
    struct arena mem = {0};
    struct error err = {0};
    int rc = sample->decode(text, &mem, &err);
    arena_done(&mem);
    if (rc != 0) {
        assert_true(rc == -EINVAL || rc == -E2BIG);
        assert_int_equal(err.code, rc);
        assert_true(err.text[0] != '\0' && err.text[0] != ':' && strchr(err.text, ':') != NULL);
    }
    return rc;
}

/* Every place of the small and middle samples; large ones are visited at a stride. */
static size_t stride(struct str text)
{
    return text.len <= MIDDLE_BYTES ? 1 : text.len / 150 + 1;
}

static void test_whole_samples_are_good(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        struct str text = open_sample(&samples[i]);
        assert_int_equal(run(&samples[i], text), 0);
        body_free(text);
    }
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        struct str text = open_sample(&samples[i]);
        for (size_t length = 0; length < text.len; length += stride(text)) {
            struct str cut = body_copy((struct str){text.data, length});
            assert_int_equal(run(&samples[i], cut), -EINVAL);
            body_free(cut);
        }
        body_free(text);
    }
}

static void test_any_changed_byte_is_survived(void **state)
{
    (void)state;
    static const char bytes[] = {'"', '\\', '{', ']', ',', '0', 'e', '\0', '\n', '\x80', '\xff'};
    for (int i = 0; i < SAMPLES; i++) {
        struct str text = open_sample(&samples[i]);
        struct strbuf changed = {0};
        for (size_t at = 0; at < text.len; at += stride(text)) {
            for (size_t b = 0; b < sizeof(bytes); b++) {
                if (text.len > SMALL_BYTES && at % sizeof(bytes) != b)
                    continue; /* one change a place in large samples */
                changed.len = 0;
                strbuf_add_str(&changed, text);
                changed.data[at] = bytes[b];
                struct str copy = body_copy((struct str){changed.data, changed.len});
                run(&samples[i], copy);
                body_free(copy);
            }
        }
        strbuf_done(&changed);
        body_free(text);
    }
}

static void test_any_allocation_may_fail(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        struct str text = open_sample(&samples[i]);
        struct arena mem = {0};
        struct error err;
        mem_fail_at(0);
        assert_int_equal(samples[i].decode(text, &mem, &err), 0);
        arena_done(&mem);
        long count = mem_count();
        assert_true(count > 0);
        for (long n = 1; n <= count; n += count / 500 + 1) {
            mem_fail_at(n);
            int rc = samples[i].decode(text, &mem, &err);
            mem_fail_at(0);
            arena_done(&mem);
            assert_int_equal(rc, -ENOMEM);
            assert_int_equal(err.code, -ENOMEM);
            assert_non_null(strstr(err.text, ": out of memory"));
        }
        body_free(text);
    }
}

/* The same by the arena's limit, which every piece of the result meets in every build. */
static void test_any_arena_may_be_too_small(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        struct str text = open_sample(&samples[i]);
        struct arena mem = {0};
        struct error err;
        assert_int_equal(samples[i].decode(text, &mem, &err), 0);
        size_t used = mem.used_bytes;
        arena_done(&mem);
        for (size_t limit = 1; limit < used; limit += used / 500 + 1) {
            arena_init(&mem, limit);
            assert_int_equal(samples[i].decode(text, &mem, &err), -ENOMEM);
            arena_done(&mem);
        }
        body_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_samples_are_good),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_any_changed_byte_is_survived),
        cmocka_unit_test(test_any_allocation_may_fail),
        cmocka_unit_test(test_any_arena_may_be_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
