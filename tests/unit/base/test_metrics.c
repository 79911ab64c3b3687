/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"

static struct strbuf page;

static const char *render(void)
{
    strbuf_done(&page);
    metrics_render(&page);
    assert_false(page.failed);
    return page.data;
}

static int reset(void **state)
{
    (void)state;
    metrics_reset();
    return 0;
}

static int drop_page(void **state)
{
    (void)state;
    strbuf_done(&page);
    return 0;
}

static void test_counters(void **state)
{
    (void)state;
    metrics_add(METRIC_ALLOCATIONS, ALLOCATION_ERROR, 2);
    metrics_add(METRIC_ALLOCATIONS, ALLOCATION_ERROR, 1);
    metrics_add(METRIC_INVALID_REQUESTS, 0, 5);
    assert_int_equal(metrics_get(METRIC_ALLOCATIONS, ALLOCATION_ERROR), 3);
    assert_int_equal(metrics_get(METRIC_ALLOCATIONS, ALLOCATION_SUCCESS), 0);

    const char *text = render();
    assert_non_null(strstr(text, "# TYPE scheduler_deviceshare_allocations_total counter\n"
                                 "scheduler_deviceshare_allocations_total{result=\"success\"} 0\n"
                                 "scheduler_deviceshare_allocations_total{result=\"refused\"} 0\n"
                                 "scheduler_deviceshare_allocations_total{result=\"error\"} 3\n"
                                 "scheduler_deviceshare_allocations_total{result=\"unknown\"} 0\n"
                                 "# HELP "));
    assert_non_null(strstr(text, "\ndeviceshare_invalid_device_requests_total 5\n"));
}

static void test_histogram_is_cumulative(void **state)
{
    (void)state;
    metrics_observe_ns(METRIC_BIND_CALL_SECONDS, 0, 50000);       /* on the bound: in the bucket */
    metrics_observe_ns(METRIC_BIND_CALL_SECONDS, 0, 50001);       /* above it: in the next */
    metrics_observe_ns(METRIC_BIND_CALL_SECONDS, 0, 3000000000);  /* 3 s */
    metrics_observe_ns(METRIC_BIND_CALL_SECONDS, 0, 60000000000); /* beyond all */
    metrics_observe_ns(METRIC_BIND_CALL_SECONDS, 0, -5);          /* a clock that went back */
    static const char expected[] =
        "# TYPE deviceshare_bind_call_duration_seconds histogram\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.00005\"} 2\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.0001\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.00025\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.0005\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.001\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.0025\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.005\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.01\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.025\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.05\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.1\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"0.25\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"1\"} 3\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"5\"} 4\n"
        "deviceshare_bind_call_duration_seconds_bucket{le=\"+Inf\"} 5\n"
        "deviceshare_bind_call_duration_seconds_sum 63.000100001\n"
        "deviceshare_bind_call_duration_seconds_count 5\n";
    assert_non_null(strstr(render(), expected));
}

static void test_histogram_labels_are_apart(void **state)
{
    (void)state;
    metrics_observe_ns(METRIC_REQUEST_SECONDS, VERB_PREEMPT, 1000);
    const char *text = render();
    assert_non_null(strstr(text, "_seconds_count{verb=\"preempt\"} 1\n"));
    assert_non_null(strstr(text, "_seconds_count{verb=\"bind\"} 0\n"));
    assert_non_null(strstr(text, "_bucket{verb=\"preempt\",le=\"+Inf\"} 1\n"));
}

/* Every family has its HELP and TYPE once, directly before its samples; the text ends in a newline.
 */
static void test_page_is_well_formed(void **state)
{
    (void)state;
    const char *text = render();
    char family[128] = "";
    int families = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        if (strncmp(line, "# HELP ", 7) == 0) {
            size_t length = strcspn(line + 7, " ");
            assert_true(length < sizeof(family));
            memcpy(family, line + 7, length);
            family[length] = '\0';
            families++;
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_memory_equal(line + 7, family, strlen(family));
        } else {
            assert_memory_equal(line, family, strlen(family));
        }
    }
    assert_int_equal(families, METRIC_COUNTER_MAX + METRIC_HISTOGRAM_MAX);
}

static int64_t frozen(void *self)
{
    return *(int64_t *)self;
}

static void test_clocks(void **state)
{
    (void)state;
    struct clock system = clock_system();
    int64_t before = clock_now_ns(&system);
    assert_true(before > 0);
    assert_true(clock_now_ns(&system) >= before);
    int64_t now = 42;
    struct clock mine = {.now_ns = frozen, .self = &now};
    assert_int_equal(clock_now_ns(&mine), 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_counters, reset),
        cmocka_unit_test_setup(test_histogram_is_cumulative, reset),
        cmocka_unit_test_setup(test_histogram_labels_are_apart, reset),
        cmocka_unit_test_setup(test_page_is_well_formed, reset),
        cmocka_unit_test(test_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, drop_page);
}
