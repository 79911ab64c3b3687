/* SPDX-License-Identifier: Apache-2.0 */
/* HAMi's annotations: what a pod has, what a node registers, and where a Pod object has them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/annotation.h"
#include "codec/hami.h"
#include "codec/objects.h"
#include "codec/requests.h"

static struct arena mem;
static struct error err;

static int teardown(void **state)
{
    (void)state;
    arena_done(&mem);
    return 0;
}

/* ---- what a pod has ---- */

static const struct named_share *named;
static uint32_t named_count;

static int allocated(const char *text, const struct container *containers, uint32_t count)
{
    return hami_allocated_parse(str_from(text), containers, count, &mem, &named, &named_count,
                                &err);
}

static void assert_named(uint32_t at, const char *id, int64_t mib, int64_t percent, uint32_t beside)
{
    assert_true(at < named_count);
    assert_true(str_is(named[at].id, id));
    assert_int_equal(named[at].mib, mib);
    assert_int_equal(named[at].percent, percent);
    assert_int_equal(named[at].beside, beside);
}

static void test_allocated(void **state)
{
    (void)state;
    const struct container apps[3] = {0};
    assert_int_equal(allocated("A,NVIDIA,100,5:B,NVIDIA,200,0:;;A,NVIDIA,50,1:;", apps, 3), 0);
    assert_int_equal(named_count, 2);
    assert_named(0, "A", 150, 6, 1);
    assert_named(1, "B", 200, 0, 0);
    assert_int_equal(allocated("N,DCU,100,5:A,NVIDIA,1,1:;", apps, 1), 0);
    assert_int_equal(named_count, 1);
    assert_int_equal(allocated("", apps, 0), 0);
    assert_int_equal(named_count, 0);
}

/* The peak of init containers, unless the text does not have the pod's containers. */
static void test_allocated_init(void **state)
{
    (void)state;
    const struct container pod[2] = {{.role = CONTAINER_INIT}, {.role = CONTAINER_APP}};
    assert_int_equal(allocated("A,NVIDIA,100,5:;A,NVIDIA,50,9:;", pod, 2), 0);
    assert_named(0, "A", 100, 9, 0);
    assert_int_equal(allocated("A,NVIDIA,100,5:;A,NVIDIA,50,9:;", pod, 1), 0);
    assert_named(0, "A", 150, 14, 1);
}

static void test_allocated_malformed(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "uuid,type,100:;",
        "A,NVIDIA,100,5,6:;",
        "A,NVIDIA,100,5",
        "A,NVIDIA,100,5;",
        "A,NVIDIA,x,5:;",
        "A,NVIDIA,100,-5:;",
        ",NVIDIA,100,5:;",
        "A,NVIDIA,100,5:",
        "A,NVIDIA,4194305,5:;",
        "A,NVIDIA,,5:;",
        "A,NVIDIA,1,100001:;",
        "A,NVIDIA,4194304,1:A,NVIDIA,1,1:;",
        "A,NVIDIA,99999999999999999999,1:;",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(allocated(texts[i], NULL, 0), -EINVAL);
}

static void test_format_is_read_back(void **state)
{
    (void)state;
    static struct placement placement = {
        .count = 2,
        .cards = {{.id = "GPU-0"}, {.id = "GPU-1"}},
        .container_count = 3,
        .part_count = 3,
        .parts = {{0, 0, {10, 48, INT64_C(7500) << 20}},
                  {2, 0, {0, 33, (INT64_C(5068) << 20) + 900000}},
                  {2, 1, {0, 33, (INT64_C(5068) << 20) + 900000}}},
    };
    struct strbuf out = {0};
    hami_allocated_format(&placement, &out);
    assert_string_equal(out.data,
                        "GPU-0,NVIDIA,7500,10:;;GPU-0,NVIDIA,5068,0:GPU-1,NVIDIA,5068,0:;");
    const struct container apps[3] = {0};
    assert_int_equal(allocated(out.data, apps, 3), 0);
    assert_named(0, "GPU-0", 12568, 10, 1);
    assert_named(1, "GPU-1", 5068, 0, 0);
    strbuf_done(&out);
}

/* The number of containers on a card outlives a restart. */
static void test_containers_on_a_card(void **state)
{
    (void)state;
    static struct placement placement = {.count = 1, .cards = {{.share = {.beside = 1}}}};
    placement.cards[0].share.amount.percent = 5;
    struct strbuf out = {0};
    const struct share *shares;
    uint32_t count;
    annotation_format(&placement, &out);
    assert_string_equal(out.data,
                        "{\"gpu\":[{\"minor\":0,\"resources\":{\"koordinator.sh/gpu-core\":"
                        "\"5\"},\"extension\":{\"deviceshare.io/containers\":2}}]}");
    assert_int_equal(annotation_parse((struct str){out.data, out.len}, &mem, &shares, &count, &err),
                     0);
    assert_int_equal(shares[0].beside, 1);
    strbuf_done(&out);
    assert_int_equal(annotation_parse(STR("{\"gpu\":[{\"minor\":0,\"extension\":{"
                                          "\"deviceshare.io/containers\":0}}]}"),
                                      &mem, &shares, &count, &err),
                     -EINVAL);
    assert_int_equal(annotation_parse(STR("{\"gpu\":[{\"minor\":0,\"extension\":[7]}]}"), &mem,
                                      &shares, &count, &err),
                     0);
    assert_int_equal(shares[0].beside, 0);
}

/* ---- what a node registers ---- */

static struct inventory inventory;

static int registers(const char *text)
{
    err = (struct error){0};
    return hami_register_parse(str_from(text), &mem, &inventory, &err);
}

static void test_register_json(void **state)
{
    (void)state;
    assert_int_equal(
        registers("[{\"id\":\"GPU-a\",\"count\":10,\"devmem\":15360,\"devcore\":100,"
                  "\"type\":\"NVIDIA-Tesla T4\",\"mode\":\"hami-core\",\"health\":true,\"new\":[]},"
                  "{\"id\":\"GPU-b\",\"index\":1,\"count\":10,\"devmem\":15360,\"devcore\":100,"
                  "\"type\":\"NVIDIA-Tesla T4\",\"numa\":1}]"),
        0);
    assert_int_equal(inventory.count, 2);
    const struct device *a = &inventory.devices[0], *b = &inventory.devices[1];
    assert_true(a->kind == DEVICE_GPU && a->minor == 0 && a->healthy && a->slots == 10);
    assert_true(a->total.percent == 100 && a->total.ratio == 100);
    assert_int_equal(a->total.bytes, INT64_C(15360) << 20);
    assert_true(str_is(a->model, "NVIDIA-Tesla T4") && str_is(a->id, "GPU-a"));
    assert_true(b->minor == 1 && !b->healthy); /* false is left out of the text */
}

static void test_register_special(void **state)
{
    (void)state;
    assert_int_equal(registers("[{\"id\":\"a\",\"count\":1,\"health\":true},"
                               "{\"id\":\"b\",\"count\":1,\"mode\":\"mig\",\"health\":true},"
                               "{\"id\":\"c\",\"health\":true}]"),
                     0);
    assert_int_equal(inventory.devices[2].minor, 2); /* nobody tells an index: the place is it */
    assert_true(inventory.devices[0].healthy);
    assert_false(inventory.devices[1].healthy); /* MIG */
    assert_false(inventory.devices[2].healthy); /* no slot */
}

static void test_register_csv(void **state)
{
    (void)state;
    assert_int_equal(registers("A,10,7680,100,NVIDIA-Tesla P4,0,true:B,5,1,1,T,0,false:"), 0);
    assert_int_equal(inventory.count, 2);
    assert_int_equal(inventory.devices[1].minor, 1);
    assert_false(inventory.devices[1].healthy);
    assert_int_equal(registers("A,10,7680,100,NVIDIA-Tesla P4,0,true,3,hami-core:"), 0);
    assert_int_equal(inventory.devices[0].minor, 3);
    assert_int_equal(inventory.devices[0].slots, 10);
}

static void test_register_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"", "separator"},
        {"a", "missing device separator"},
        {":", "no gpu found"},
        {",:", "unexpected field count 2"},
        {"A,x,1,1,T,0,true:", "[0].count"},
        {"A,1,1,1,T,0,true:B,1,1,1,T,0,maybe:", "[1].health"},
        {"A,1,1,1,T,0,true,x,m:", "index"},
        {"A,1,1,1,T,0,true:rest", "behind"},
        {"[]", "no gpu found"},
        {"[{}]", "[0].id"},
        {"[{\"id\":1}]", "[0].id"},
        {"[{\"id\":\"a\",\"devmem\":4194305}]", "[0].devmem"},
        {"[{\"id\":\"a\",\"devcore\":-1}]", "[0].devcore"},
        {"[{\"id\":\"a\"},{\"id\":\"a\"}]", "[1].id: a came before"},
        {"[{\"id\":\"a\",\"index\":1},{\"id\":\"b\",\"index\":1}]", "[1].index: 1 came before"},
        {"[{\"id\":\"a\"", ""},
        {"[3]", "[0]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(registers(cases[i].text), -EINVAL);
        if (strstr(err.text, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].text, err.text);
    }
}

/* ---- in a Node ---- */

static struct node_facts node_with(const char *annotations)
{
    struct strbuf text = {0};
    struct node_facts facts;
    strbuf_printf(&text, "{\"kind\":\"Node\",\"metadata\":{\"name\":\"n\",\"annotations\":{%s}}}",
                  annotations);
    assert_int_equal(object_decode_node((struct str){text.data, text.len}, &mem, &facts, &err), 0);
    strbuf_done(&text);
    return facts;
}

static void test_node(void **state)
{
    (void)state;
    assert_int_equal(node_with("").registration, REGISTRATION_ABSENT);
    struct node_facts facts =
        node_with("\"hami.io/node-nvidia-register\":\"A,10,7680,100,T4,0,true:\"");
    assert_int_equal(facts.registration, REGISTRATION_READ);
    assert_int_equal(facts.registered.count, 1);
    facts = node_with("\"hami.io/node-nvidia-register\":\"[]\"");
    assert_int_equal(facts.registration, REGISTRATION_UNREADABLE);
    assert_true(str_is(facts.registration_problem, "no gpu found on node"));
}

/* ---- in a Binding ---- */

static void test_binding(void **state)
{
    (void)state;
    static struct placement placement = {
        .count = 1,
        .cards = {{.share = {.amount = {.bytes = 100 << 20}}, .id = "GPU-0"}},
        .container_count = 2,
        .part_count = 1,
        .parts = {{1, 0, {.bytes = 100 << 20}}},
        .hami = true,
        .hami_time_s = 1700000000,
    };
    const struct pod_id id = {STR("ns"), STR("p"), STR("u")};
    struct strbuf out = {0};
    uint32_t bytes;
    request_binding(&id, STR("n1"), &placement, &out, &bytes);
    static const char *const written[] = {
        "\"hami.io/vgpu-node\":\"n1\"",
        "\"hami.io/vgpu-time\":\"1700000000\"",
        "\"hami.io/vgpu-devices-to-allocate\":\";GPU-0,NVIDIA,100,0:;\"",
        "\"hami.io/vgpu-devices-allocated\":\";GPU-0,NVIDIA,100,0:;\"",
        "\"hami.io/bind-phase\":\"allocating\"",
        "\"hami.io/bind-time\":\"1700000000\"",
    };
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        assert_non_null(strstr(out.data, written[i]));
    strbuf_done(&out);
    placement.hami = false;
    request_binding(&id, STR("n1"), &placement, &out, &bytes);
    assert_null(strstr(out.data, "hami.io"));
    strbuf_done(&out);
}

/* ---- in a Pod ---- */

static struct pod pod_with(const char *annotations, const char *node)
{
    struct strbuf text = {0};
    struct pod pod;
    strbuf_printf(&text,
                  "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"annotations\":{%s}},"
                  "\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"name\":\"c\"}]}}",
                  annotations, node);
    assert_int_equal(object_decode_pod((struct str){text.data, text.len}, &mem, &pod, &err), 0);
    strbuf_done(&text);
    return pod;
}

#define ALLOCATED "\"hami.io/vgpu-devices-allocated\":\"A,NVIDIA,100,5:;\""
#define OURS      "\"scheduling.koordinator.sh/device-allocated\":\"{}\""

static void test_pod_of_hami(void **state)
{
    (void)state;
    struct pod pod = pod_with(ALLOCATED ",\"hami.io/vgpu-node\":\"n1\"", "n1");
    assert_int_equal(pod.annotation, ANNOTATION_HAMI);
    assert_int_equal(pod.named_count, 1);
    /* Before it runs the annotation is no more than somebody's plan. */
    assert_int_equal(pod_with(ALLOCATED, "").annotation, ANNOTATION_ABSENT);
    /* It is of another node. */
    pod = pod_with(ALLOCATED ",\"hami.io/vgpu-node\":\"n1\"", "n2");
    assert_int_equal(pod.annotation, ANNOTATION_UNREADABLE);
    assert_int_equal(pod_with(ALLOCATED "," OURS, "n1").annotation, ANNOTATION_READ);
    pod = pod_with("\"hami.io/vgpu-devices-allocated\":\"?\",\"hami.io/bind-phase\":\"success\"",
                   "n1");
    assert_int_equal(pod.annotation, ANNOTATION_UNREADABLE);
    assert_true(str_is(pod.hami_phase, "success"));
}

static void test_room(void **state)
{
    (void)state;
    assert_null(pod_with("", "n").room);
    struct pod pod = pod_with("\"nvidia.com/use-gputype\":\"T4\"", "n");
    assert_non_null(pod.room);
    assert_true(str_is(pod.room->detail.select.use_model, "T4"));
    pod = pod_with("\"nvidia.com/nouse-gputype\":\"T4\",\"nvidia.com/use-gpuuuid\":\"a\","
                   "\"nvidia.com/nouse-gpuuuid\":\"b\"",
                   "n");
    assert_true(str_is(pod.selection.no_model, "T4") && str_is(pod.selection.use_id, "a") &&
                str_is(pod.selection.no_id, "b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_allocated, teardown),
        cmocka_unit_test_teardown(test_allocated_init, teardown),
        cmocka_unit_test_teardown(test_allocated_malformed, teardown),
        cmocka_unit_test_teardown(test_format_is_read_back, teardown),
        cmocka_unit_test_teardown(test_containers_on_a_card, teardown),
        cmocka_unit_test_teardown(test_register_json, teardown),
        cmocka_unit_test_teardown(test_register_special, teardown),
        cmocka_unit_test_teardown(test_register_csv, teardown),
        cmocka_unit_test_teardown(test_register_malformed, teardown),
        cmocka_unit_test_teardown(test_node, teardown),
        cmocka_unit_test_teardown(test_binding, teardown),
        cmocka_unit_test_teardown(test_pod_of_hami, teardown),
        cmocka_unit_test_teardown(test_room, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
