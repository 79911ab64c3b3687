/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "body.h"
#include "codec/annotation.h"
#include "rng.h"

#define GIB (INT64_C(1) << 30)
#define GPU_FULL                                                                                   \
    "\"resources\":{\"koordinator.sh/gpu-core\":\"100\",\"koordinator.sh/gpu-memory\":\"16Gi\","   \
    "\"koordinator.sh/gpu-memory-ratio\":\"100\"}"

static struct arena mem;
static struct error err;
static const struct share *shares;
static uint32_t count;

static int start(void **state)
{
    (void)state;
    arena_init(&mem, 0);
    count = 77;
    return 0;
}

static int finish(void **state)
{
    (void)state;
    arena_done(&mem);
    return 0;
}

static void parse(const char *text)
{
    struct str copy = body_copy(str_from(text));
    if (annotation_parse(copy, &mem, &shares, &count, &err) != 0)
        fail_msg("%s", err.text);
    body_free(copy);
}

static void refuse(const char *text, const char *sentence)
{
    struct str copy = body_copy(str_from(text));
    count = 77;
    assert_int_equal(annotation_parse(copy, &mem, &shares, &count, &err), -EINVAL);
    assert_string_equal(err.text, sentence);
    assert_int_equal(count, 77);
    body_free(copy);
}

static void assert_share(uint32_t i, enum device_kind kind, int32_t minor, int64_t percent,
                         int64_t ratio, int64_t bytes)
{
    assert_true(i < count);
    assert_int_equal(shares[i].kind, kind);
    assert_int_equal(shares[i].minor, minor);
    assert_int_equal(shares[i].amount.percent, percent);
    assert_int_equal(shares[i].amount.ratio, ratio);
    assert_int_equal(shares[i].amount.bytes, bytes);
}

static struct placed_card card(enum device_kind kind, int32_t minor, int64_t percent, int64_t ratio,
                               int64_t bytes, const char *id)
{
    struct placed_card made = {
        .share = {.kind = kind, .minor = minor, .amount = {percent, ratio, bytes}}};
    snprintf(made.id, sizeof(made.id), "%s", id);
    return made;
}

static void assert_format(const struct placement *placement, const char *expected)
{
    struct strbuf out = {0};
    annotation_format(placement, &out);
    assert_string_equal(out.data, expected);
    strbuf_done(&out);
}

static void assert_visible(const struct placement *placement, const char *expected)
{
    struct strbuf out = {0};
    annotation_format_visible(placement, &out);
    assert_string_equal(out.data != NULL ? out.data : "", expected);
    strbuf_done(&out);
}

/* ---- reading ---- */

/* Koordinator's own case, Test_GetDeviceAllocations. */
static void test_reads_koordinators_case(void **state)
{
    (void)state;
    parse("{\"gpu\":[{\"minor\":1,\"id\": \"0000:08.00.0\"," GPU_FULL "}]}");
    assert_int_equal(count, 1);
    assert_share(0, DEVICE_GPU, 1, 100, 100, 16 * GIB);
}

/* A real pod of public issue koordinator#2545: half of a card of 46068 MiB. */
static void test_reads_a_shared_pod(void **state)
{
    (void)state;
    parse("{\"gpu\":[{\"minor\":3,\"resources\":{\"koordinator.sh/gpu-core\":\"50\","
          "\"koordinator.sh/gpu-memory\":\"23034Mi\",\"koordinator.sh/gpu-memory-ratio\":\"50\"},"
          "\"id\":\"GPU-57047317-c2d0-b5bd-37b9-522cf6d24591\"}]}");
    assert_int_equal(count, 1);
    assert_share(0, DEVICE_GPU, 3, 50, 50, INT64_C(23034) << 20);
}

static void test_sorts_and_adds_up(void **state)
{
    (void)state;
    parse(" {\"rdma\":[{\"minor\":2,\"resources\":{\"koordinator.sh/rdma\":\"1\"}}],"
          "\"gpu\":[{\"minor\":7,\"resources\":{\"koordinator.sh/gpu-core\":\"10\"}},"
          "{\"minor\":0,\"resources\":{\"koordinator.sh/gpu-core\":20}},"
          "{\"minor\":7,\"resources\":{\"koordinator.sh/gpu-core\":\"5\",\"koordinator.sh/"
          "gpu-memory\":\"1Gi\"}}],"
          "\"fpga\":[{\"minor\":2,\"resources\":null}]}\n");
    assert_int_equal(count, 4);
    assert_share(0, DEVICE_GPU, 0, 20, 0, 0);
    assert_share(1, DEVICE_GPU, 7, 15, 0, GIB);
    assert_share(2, DEVICE_RDMA, 2, 1, 0, 0);
    assert_share(3, DEVICE_FPGA, 2, 0, 0, 0);
}

static void test_skips_what_is_nobodys(void **state)
{
    (void)state;
    parse("{\"npu\":\"anything\",\"GPU\":[{\"minor\":5}],\"gpu\":[{\"minor\":0,\"resources\":{"
          "\"huawei.com/npu-core\":\"-5\",\"koordinator.sh/rdma\":\"7\",\"koordinator.sh/"
          "gpu-core\":\"1\"},"
          "\"extension\":{\"vfs\":[{\"minor\":1}],\"gpuSharedResourceTemplate\":\"vir01\"}}],"
          "\"rdma\":null}");
    assert_int_equal(count, 1);
    assert_share(0, DEVICE_GPU, 0, 1, 0, 0);
    parse("{}");
    assert_int_equal(count, 0);
    parse("{\"gpu\":[]}");
    assert_int_equal(count, 0);
}

static void test_understands_old_names(void **state)
{
    (void)state;
    parse("{\"gpu\":[{\"minor\":0,\"resources\":{\"kubernetes.io/gpu-core\":\"30\","
          "\"kubernetes.io/gpu-memory-ratio\":\"40\",\"koordinator.sh/gpu-core\":\"20\"}},"
          "{\"minor\":1,\"resources\":{\"koordinator.sh/gpu-core\":\"20\",\"kubernetes.io/"
          "gpu-core\":\"30\"}}],"
          "\"rdma\":[{\"minor\":0,\"resources\":{\"kubernetes.io/rdma\":\"50\"}}]}");
    assert_share(0, DEVICE_GPU, 0, 20, 40, 0);
    assert_share(1, DEVICE_GPU, 1, 20, 0, 0);
    assert_share(2, DEVICE_RDMA, 0, 50, 0, 0);
}

/* The last member of a name counts, as in Go. */
static void test_repeated_types(void **state)
{
    (void)state;
    parse("{\"gpu\":[{\"minor\":0}],\"gpu\":[{\"minor\":1}]}");
    assert_int_equal(count, 1);
    assert_share(0, DEVICE_GPU, 1, 0, 0, 0);
}

static void test_refuses_other_shapes(void **state)
{
    (void)state;
    refuse("incorrect-device-allocation",
           "device-allocated: not valid JSON, unexpected character at byte 0");
    refuse("", "device-allocated: empty");
    refuse("[]", "device-allocated: must be an object");
    refuse("null", "device-allocated: must be an object");
    refuse("{\"gpu\":{}}", "device-allocated.gpu: must be an array");
    refuse("{\"gpu\":[null]}", "device-allocated.gpu[0]: must be an object");
    refuse("{\"gpu\":[{\"minor\":0},{}]}", "device-allocated.gpu[1].minor: must be given");
    refuse("{\"gpu\":[{\"minor\":\"0\"}]}", "device-allocated.gpu[0].minor: must be an integer");
    refuse("{\"gpu\":[{\"minor\":-1}]}",
           "device-allocated.gpu[0].minor: must be from 0 to 2147483647");
    refuse("{\"gpu\":[{\"minor\":0,\"resources\":[]}]}",
           "device-allocated.gpu[0].resources: must be an object");
    refuse("{\"gpu\":[{\"minor\":0,\"resources\":{\"koordinator.sh/gpu-core\":true}}]}",
           "device-allocated.gpu[0].resources[\"koordinator.sh/gpu-core\"]: must be a quantity");
}

static void test_refuses_impossible_amounts(void **state)
{
    (void)state;
    static const char *const amounts[] = {"\"koordinator.sh/gpu-core\":\"-1\"",
                                          "\"koordinator.sh/gpu-core\":\"100001\"",
                                          "\"koordinator.sh/gpu-memory-ratio\":\"100001\"",
                                          "\"koordinator.sh/gpu-memory\":\"70368744177665\""};
    for (size_t i = 0; i < 4; i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"gpu\":[{\"minor\":0,\"resources\":{%s}}]}", amounts[i]);
        struct error why;
        assert_int_equal(annotation_parse(str_from(text), &mem, &shares, &count, &why), -EINVAL);
        assert_non_null(strstr(why.text, "negative, or more than a card can have"));
    }
    parse("{\"gpu\":[{\"minor\":0,\"resources\":{\"koordinator.sh/gpu-core\":\"100k\","
          "\"koordinator.sh/gpu-memory\":\"4Ti\"}}]}"); /* the bounds themselves */
    assert_share(0, DEVICE_GPU, 0, CARD_PERCENT_MAX, 0, CARD_BYTES_MAX);
    refuse("{\"gpu\":[{\"minor\":0,\"resources\":{\"koordinator.sh/gpu-memory\":\"4Ti\"}},"
           "{\"minor\":0,\"resources\":{\"koordinator.sh/gpu-memory\":\"1\"}}]}",
           "device-allocated.gpu[1]: more than a card can have");
}

static void test_bounds_the_number_of_cards(void **state)
{
    (void)state;
    struct strbuf text = {0};
    strbuf_puts(&text, "{\"gpu\":[");
    for (int i = 0; i < CARDS_PER_POD_MAX; i++)
        strbuf_printf(&text, "{\"minor\":%d},{\"minor\":%d},", i, i); /* twice is once */
    size_t length = text.len;
    text.data[length - 1] = ']';
    strbuf_puts(&text, "}");
    parse(text.data);
    assert_int_equal(count, CARDS_PER_POD_MAX);

    text.data[length - 1] = ',';
    text.len--;
    strbuf_printf(&text, "{\"minor\":%d}]}", CARDS_PER_POD_MAX);
    refuse(text.data, "device-allocated.gpu[128]: more than 64 cards");
    strbuf_done(&text);
}

static void test_deep_nesting_is_only_unreadable(void **state)
{
    (void)state;
    refuse("{\"x\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}", "device-allocated: nesting deeper than 16");
}

/* ---- writing ---- */

/* Koordinator's own case, Test_Plugin_PreBind. */
static void test_writes_koordinators_bytes(void **state)
{
    (void)state;
    struct placement placement = {.count = 3};
    placement.cards[0] =
        card(DEVICE_GPU, 0, 100, 100, 16 * GIB, "GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d");
    placement.cards[1] =
        card(DEVICE_GPU, 1, 100, 100, 16 * GIB, "GPU-befd76c3-8a36-7b8a-179c-eae75aa7d9f2");
    placement.cards[2] = card(DEVICE_RDMA, 1, 100, 0, 0, "0000:1f:00.0");
    assert_format(&placement,
                  "{\"gpu\":[{\"minor\":0," GPU_FULL
                  ",\"id\":\"GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d\"},"
                  "{\"minor\":1," GPU_FULL ",\"id\":\"GPU-befd76c3-8a36-7b8a-179c-eae75aa7d9f2\"}],"
                  "\"rdma\":[{\"minor\":1,\"resources\":{\"koordinator.sh/"
                  "rdma\":\"100\"},\"id\":\"0000:1f:00.0\"}]}");
    assert_visible(
        &placement,
        "GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d,GPU-befd76c3-8a36-7b8a-179c-eae75aa7d9f2");
}

static void test_types_stand_in_byte_order(void **state)
{
    (void)state;
    struct placement placement = {.count = 3};
    placement.cards[0] = card(DEVICE_GPU, 3, 50, 50, INT64_C(23034) << 20, "");
    placement.cards[1] = card(DEVICE_RDMA, 0, 1, 0, 0, "");
    placement.cards[2] = card(DEVICE_FPGA, 9, 1000, 0, 0, "");
    assert_format(
        &placement,
        "{\"fpga\":[{\"minor\":9,\"resources\":{\"koordinator.sh/fpga\":\"1k\"}}],"
        "\"gpu\":[{\"minor\":3,\"resources\":{\"koordinator.sh/gpu-core\":\"50\","
        "\"koordinator.sh/gpu-memory\":\"23034Mi\",\"koordinator.sh/gpu-memory-ratio\":\"50\"}}],"
        "\"rdma\":[{\"minor\":0,\"resources\":{\"koordinator.sh/rdma\":\"1\"}}]}");
    assert_visible(&placement, "3");
}

static void test_zero_amounts_are_left_out(void **state)
{
    (void)state;
    struct placement placement = {.count = 1};
    placement.cards[0] = card(DEVICE_GPU, 2, 0, 25, 4 * GIB, "");
    assert_format(&placement,
                  "{\"gpu\":[{\"minor\":2,\"resources\":{\"koordinator.sh/gpu-memory\":\"4Gi\","
                  "\"koordinator.sh/gpu-memory-ratio\":\"25\"}}]}");
    placement.count = 0;
    assert_format(&placement, "{}");
    assert_visible(&placement, "");
}

/* Koordinator's fillGPUTotalMem sets the missing one of the two, whatever it comes to. */
static void test_the_derived_memory_figure_is_always_there(void **state)
{
    (void)state;
    struct placement placement = {.count = 2};
    placement.cards[0] = card(DEVICE_GPU, 0, 0, 0, 512 * GIB / 1024, ""); /* of 80Gi */
    placement.cards[1] = card(DEVICE_GPU, 1, 50, 50, 0, ""); /* a card that states no size */
    assert_format(&placement,
                  "{\"gpu\":[{\"minor\":0,\"resources\":{\"koordinator.sh/gpu-memory\":\"512Mi\","
                  "\"koordinator.sh/gpu-memory-ratio\":\"0\"}},"
                  "{\"minor\":1,\"resources\":{\"koordinator.sh/gpu-core\":\"50\","
                  "\"koordinator.sh/gpu-memory\":\"0\",\"koordinator.sh/gpu-memory-ratio\":\"50\"}}]}");
}

static void test_visible_devices_are_all_ids_or_all_minors(void **state)
{
    (void)state;
    struct placement placement = {.count = 3};
    placement.cards[0] = card(DEVICE_GPU, 4, 1, 0, 0, "GPU-a");
    placement.cards[1] = card(DEVICE_GPU, 6, 1, 0, 0, "");
    placement.cards[2] = card(DEVICE_RDMA, 1, 1, 0, 0, "0000:1f:00.0");
    assert_visible(&placement, "4,6");
    placement.cards[1] = card(DEVICE_GPU, 6, 1, 0, 0, "GPU-b");
    placement.cards[2] =
        card(DEVICE_RDMA, 1, 1, 0, 0, ""); /* an RDMA card without id is no matter */
    assert_visible(&placement, "GPU-a,GPU-b");
}

static void test_what_is_written_reads_back(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(1);
    for (int round = 0; round < 500; round++) {
        struct placement placement = {0};
        for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
            int32_t minor = 0;
            for (uint32_t n = rng_below(&rng, 6); n > 0; n--) {
                minor += 1 + (int32_t)rng_below(&rng, 1000000);
                bool gpu = kind == DEVICE_GPU;
                placement.cards[placement.count++] =
                    card(kind, minor, rng_below(&rng, 3) * rng_below(&rng, 50001),
                         gpu ? rng_below(&rng, 2) * rng_below(&rng, 100001) : 0,
                         gpu ? (int64_t)(rng_next(&rng) >> (22 + rng_below(&rng, 42))) : 0,
                         rng_below(&rng, 2) ? "GPU-\"odd\\id\"" : "");
            }
        }
        struct strbuf out = {0};
        annotation_format(&placement, &out);
        parse(out.data);
        strbuf_done(&out);
        assert_int_equal(count, placement.count);
        for (uint32_t i = 0; i < count; i++) {
            const struct share *share = &placement.cards[i].share;
            assert_share(i, share->kind, share->minor, share->amount.percent, share->amount.ratio,
                         share->amount.bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
        TEST(test_reads_koordinators_case),    TEST(test_reads_a_shared_pod),
        TEST(test_sorts_and_adds_up),          TEST(test_skips_what_is_nobodys),
        TEST(test_understands_old_names),      TEST(test_repeated_types),
        TEST(test_refuses_other_shapes),       TEST(test_refuses_impossible_amounts),
        TEST(test_bounds_the_number_of_cards), TEST(test_deep_nesting_is_only_unreadable),
        TEST(test_writes_koordinators_bytes),  TEST(test_types_stand_in_byte_order),
        TEST(test_zero_amounts_are_left_out),
        TEST(test_the_derived_memory_figure_is_always_there),
        TEST(test_visible_devices_are_all_ids_or_all_minors),
        TEST(test_what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
