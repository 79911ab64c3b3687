/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/yaml.h"

#include "base/mem.h"
#include "embed/scalar.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- YAML to JSON ---- */

static void check_json(struct str text, const char *const *wanted, const uint32_t *lines,
                       uint32_t wanted_count)
{
    struct yaml_document *documents;
    struct arena mem;
    struct error err;
    uint32_t count;

    arena_init(&mem, 0);
    if (yaml_to_json(text, "s", &mem, &documents, &count, &err) < 0)
        fail_msg("%.*s: %s", STR_ARG(text), err.text);
    assert_int_equal(count, wanted_count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(documents[i].json.len, strlen(wanted[i]));
        assert_string_equal(documents[i].json.data, wanted[i]);
        if (lines != NULL)
            assert_int_equal(documents[i].line, lines[i]);
    }
    arena_done(&mem);
}

#define assert_json(text, wanted) check_json(STR(text), &(const char *){wanted}, NULL, 1)

static void check_refused(struct str text, const char *wanted)
{
    struct yaml_document *documents = NULL;
    struct arena mem;
    struct error err;
    uint32_t count = 77;

    arena_init(&mem, 0);
    assert_int_equal(yaml_to_json(text, "s", &mem, &documents, &count, &err), -EINVAL);
    assert_string_equal(err.text, wanted);
    assert_int_equal(count, 77);
    assert_null(documents);
    arena_done(&mem);
}

#define assert_refused(text, wanted) check_refused(STR(text), wanted)

static void plain_scalars_have_types(void **state)
{
    static const char *const cases[][2] = {
        {"null", "null"},
        {"~", "null"},
        {"Null", "null"},
        {"true", "true"},
        {"True", "true"},
        {"FALSE", "false"},
        {"yes", "\"yes\""},
        {"no", "\"no\""},
        {"on", "\"on\""},
        {"off", "\"off\""},
        {"y", "\"y\""},
        {"tRue", "\"tRue\""},
        {"0", "0"},
        {"-0", "-0"},
        {"+12", "12"},
        {"-7", "-7"},
        {"0x1F", "31"},
        {"0o17", "15"},
        {"0644", "420"},
        {"-010", "-8"},
        {"089", "89"},
        {"00", "0"},
        {"0x", "\"0x\""},
        {"0o8", "\"0o8\""},
        {"0xfg", "\"0xfg\""},
        {"1_000", "\"1_000\""},
        {"0b11", "\"0b11\""},
        {"1.5", "1.5"},
        {".5", "0.5"},
        {"1.", "1"},
        {"-.5e-3", "-0.5e-3"},
        {"1e3", "1e3"},
        {"1E+3", "1e+3"},
        {"01.50", "1.50"},
        {".", "\".\""},
        {"1e", "\"1e\""},
        {"e3", "\"e3\""},
        {"+", "\"+\""},
        {"16Gi", "\"16Gi\""},
        {"100m", "\"100m\""},
        {"1.2.3", "\"1.2.3\""},
        {"12:30", "\"12:30\""},
        {"2026-01-02", "\"2026-01-02\""},
        {"18446744073709551615123", "18446744073709551615123"},
        {"0xffffffffffffffff", "18446744073709551615"},
        {"'1'", "\"1\""},
        {"\"true\"", "\"true\""},
        {"''", "\"\""},
        {"\"\\x41\\u00e4\\U0001F600\\0\"", "\"A\xc3\xa4\xf0\x9f\x98\x80\\u0000\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128], wanted[128];

        snprintf(text, sizeof text, "k: %s\n", cases[i][0]);
        snprintf(wanted, sizeof wanted, "{\"k\":%s}", cases[i][1]);
        check_json(str_from(text), &(const char *){wanted}, NULL, 1);
    }
    assert_json("k:\n", "{\"k\":null}");
    assert_json("k: |\n  1\n", "{\"k\":\"1\\n\"}");
    assert_json("k: >-\n  a\n  b\n", "{\"k\":\"a b\"}");
    assert_refused("k: .inf\n", "s:1:4: .inf is a number that JSON cannot hold");
    assert_refused("k: -.Inf\n", "s:1:4: -.Inf is a number that JSON cannot hold");
    assert_refused("k: .NaN\n", "s:1:4: .NaN is a number that JSON cannot hold");
    assert_refused("k: 0x10000000000000000\n",
                   "s:1:4: 0x10000000000000000 is a number that JSON cannot hold");
}

static void keys_are_text(void **state)
{
    (void)state;
    assert_json("1: a\ntrue: b\n\"\": c\n'~': d\n",
                "{\"1\":\"a\",\"true\":\"b\",\"\":\"c\",\"~\":\"d\"}");
    assert_json("? a b\n: 1\n", "{\"a b\":1}");
    assert_refused("a:\n  ~: 1\n", "s:2:3: a key is missing");
    assert_refused("a: {? : 1}\n", "s:1:7: a key is missing");
    assert_refused("? [a]\n: 1\n", "s:1:3: a key must be a scalar");
    assert_refused("a: 1\nb: 2\na: 3\n", "s:3:1: key \"a\" was already given on line 1");
    assert_refused("a: {b: 1, \"b\": 2}\n", "s:1:11: key \"b\" was already given on line 1");
    assert_refused("a:\n  <<: {b: 1}\n", "s:2:3: merge keys are not read");
    assert_json("a: {b: 1}\nc: {b: 1}\n", "{\"a\":{\"b\":1},\"c\":{\"b\":1}}");
}

static void documents_are_counted(void **state)
{
    static const char *const three[] = {"{\"a\":1}", "[\"b\"]", "\"c\""};
    static const uint32_t lines[] = {3, 9, 11};

    (void)state;
    check_json(STR("# head\n---\na: 1\n---\n---\n# only a comment\n---\n\n- b\n...\n--- c\n"),
               three, lines, 3);
    check_json(STR(""), NULL, NULL, 0);
    check_json((struct str){NULL, 0}, NULL, NULL, 0);
    check_json(STR("---\n~\n---\nnull\n"), NULL, NULL, 0);
    check_json(STR("\xef\xbb\xbf"
                   "a: 1\n"),
               three, (const uint32_t[]){1}, 1);
}

static void what_is_not_the_json_subset_is_refused(void **state)
{
    (void)state;
    assert_refused("a: &x 1\nb: *x\n", "s:1:4: anchors and aliases are not read");
    assert_refused("a: *x\n", "s:1:4: anchors and aliases are not read");
    assert_refused("a: &x [b]\n", "s:1:4: anchors and aliases are not read");
    assert_refused("a: &x {b: *x}\n", "s:1:4: anchors and aliases are not read");
    assert_refused("a: !!str 1\n", "s:1:4: tags are not read");
    assert_refused("a: !!binary aGk=\n", "s:1:4: tags are not read");
    assert_refused("a: !x {}\n", "s:1:4: tags are not read");
    assert_refused("a: !x []\n", "s:1:4: tags are not read");
    assert_refused("a: ! 'b'\n", "s:1:4: tags are not read");
    assert_refused("%TAG !x! tag:x\n--- {a: 1}\n", "s:1:1: tags are not read");
    assert_refused("a: 1\n...\r\n%TAG !x! tag:x\n--- {a: 1}\n", "s:3:1: tags are not read");
    assert_json("%YAML 1.1\n---\na: 5%TAG\n", "{\"a\":\"5%TAG\"}");
    assert_refused("a: 1\n b: [\n", "s:2:3: not YAML: mapping values are not allowed in this "
                                    "context");
    assert_refused("a: \"\xff\"\n", "s:1:5: not YAML: invalid leading UTF-8 octet");
    assert_refused("# \xc3\xa4\na: \xc3\xa4\x01\n",
                   "s:2:5: not YAML: control characters are not allowed");
    check_refused((struct str){"a: 1\n\0b", 7},
                  "s:2:1: not YAML: control characters are not allowed");
}

static void depth_is_bounded(void **state)
{
    struct strbuf text, wanted;

    (void)state;
    strbuf_init(&text);
    strbuf_init(&wanted);
    strbuf_puts(&text, "- "); /* not JSON, so that YAML's own bound is seen */
    for (int i = 0; i < 63; i++)
        strbuf_putc(&text, '[');
    strbuf_puts(&text, "x");
    for (int i = 0; i < 63; i++)
        strbuf_putc(&text, ']');
    strbuf_add(&wanted, text.data + 2, text.len - 2);
    text.len = 0;
    strbuf_puts(&text, "- ");
    strbuf_add(&text, wanted.data, wanted.len);
    wanted.len = 0;
    for (int i = 0; i < 64; i++)
        strbuf_putc(&wanted, '[');
    strbuf_puts(&wanted, "\"x\"");
    for (int i = 0; i < 64; i++)
        strbuf_putc(&wanted, ']');
    check_json((struct str){text.data, text.len}, (const char *const[]){wanted.data}, NULL, 1);

    text.len = 0;
    for (int i = 0; i < 500000; i++)
        strbuf_putc(&text, '[');
    check_refused((struct str){text.data, text.len}, "s:1:65: nested more than 64 levels deep");
    text.len = 0;
    for (int i = 0; i < 65; i++)
        strbuf_puts(&text, "{\"a\":");
    strbuf_puts(&text, "1");
    for (int i = 0; i < 65; i++)
        strbuf_puts(&text, "}");
    check_refused((struct str){text.data, text.len}, "s:1:321: nested more than 64 levels deep");
    strbuf_done(&text);
    strbuf_done(&wanted);
}

/* JSON that libyaml does not take. */
static void json_is_read_as_json(void **state)
{
    char text[2100];

    (void)state;
    assert_json(" {\"a\" : [1, 2.50 ,\t1E5 ], \"b\\u00e9\":\"x\"} \n",
                "{\"a\":[1,2.50,1E5],\"b\xc3\xa9\":\"x\"}");
    assert_json("{\"a\":\"\\ud83d\\ude00 \\/ \x7f\"}", "{\"a\":\"\\ud83d\\ude00 \\/ \x7f\"}");
    assert_json("[]", "[]");
    assert_refused("{\"a\":1,\n\"\\u0061\":2}", "s:2:1: key \"a\" was already given on line 1");
    assert_refused("{\"a\":1,\n  \"b\":[}", "s:2:8: not YAML: did not find expected node content "
                                            "while parsing a flow node");
    memset(text, 'k', sizeof text);
    text[0] = '{';
    text[1] = text[2000] = '"';
    memcpy(text + 2001, ":1}", 4);
    check_json(str_from(text), (const char *const[]){text}, NULL, 1);
    /* Not JSON, but YAML in flow style. */
    assert_json("{a: 1, b: [c]}", "{\"a\":1,\"b\":[\"c\"]}");
}

/* ---- JSON to YAML ---- */

static void check_yaml(const char *json, const char *wanted)
{
    struct strbuf out;
    struct error err;

    strbuf_init(&out);
    if (yaml_from_json(str_from(json), &out, &err) < 0)
        fail_msg("%s: %s", json, err.text);
    assert_string_equal(out.data, wanted);
    strbuf_done(&out);
}

static void yaml_looks_like_kubectl_s(void **state)
{
    (void)state;
    check_yaml(
        "{\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"labels\":{},"
        "\"annotations\":{\"a/b\":\"{\\\"gpu\\\":[]}\"}},\"spec\":{\"containers\":[{\"name\":\"c\","
        "\"args\":[\"-v\",\"2\",\"a "
        "b\"],\"limits\":{\"cpu\":\"500m\",\"memory\":\"16Gi\",\"gpu\":\"1\"}},"
        "{\"name\":\"d\",\"tty\":true,\"m\":null,\"k\":5}],\"x\":[[1,2],[],[{}]]}}",
        "---\n"
        "apiVersion: v1\n"
        "metadata:\n"
        "  name: p\n"
        "  labels: {}\n"
        "  annotations:\n"
        "    a/b: \"{\\\"gpu\\\":[]}\"\n"
        "spec:\n"
        "  containers:\n"
        "  - name: c\n"
        "    args:\n"
        "    - \"-v\"\n"
        "    - \"2\"\n"
        "    - a b\n"
        "    limits:\n"
        "      cpu: 500m\n"
        "      memory: 16Gi\n"
        "      gpu: \"1\"\n"
        "  - name: d\n"
        "    tty: true\n"
        "    m: null\n"
        "    k: 5\n"
        "  x:\n"
        "  - - 1\n"
        "    - 2\n"
        "  - []\n"
        "  - - {}\n");
    check_yaml("{\"a\":\"x\\n  y\\n\",\"b\":[\"x\\n\\ny\"],\"c\":\"x\\n\\n\",\"d\":\" x\\ny\"}",
               "---\n"
               "a: |\n  x\n    y\n"
               "b:\n- |-\n  x\n\n  y\n"
               "c: \"x\\n\\n\"\n"
               "d: \" x\\ny\"\n");
    check_yaml("\"a\\nb\"", "---\n\"a\\nb\"\n");
    check_yaml("{}", "---\n{}\n");
    /* What some readers do not take, or do not show, is escaped. */
    check_yaml("[\"\xef\xbb\xbf\",\"\xe2\x80\xa8\",\"\x7f\",\"\\u0000\",\"\xc3\xa4\"]",
               "---\n- \"\\ufeff\"\n- \"\\u2028\"\n- \"\\u007f\"\n- \"\\u0000\"\n- \"\xc3\xa4\"\n");
}

/* Strings that some reader takes for something else are quoted. */
static void doubtful_strings_are_quoted(void **state)
{
    static const char *const doubtful[] = {
        "",           "~",        "null",
        "true",       "False",    "yes",
        "NO",         "on",       "y",
        "1",          "-1",       "0x10",
        "0o7",        "1e3",      "1.5",
        ".5",         ".inf",     "010",
        "1_0",        "12:30",    "1:2:3",
        "2026-01-02", "- a",      "#x",
        "a #b",       "a: b",     "a:",
        " a",         "a ",       "a  b",
        "*a",         "&a",       "!a",
        "%a",         "@a",       "`a",
        "{a}",        "[a]",      "? a",
        "|",          ">",        "'a'",
        "\"a\"",      "=",        "<<",
        "---",        "...",      "a\tb",
        "a\x7f",      "a\nb",     "1E5",
        "0000:1f:00", "0b1",      "+1",
        "-",          "\xc2\x85", "2001-12-14t21:59:43.10-05:00",
    };
    static const char *const plain[] = {"a",    "a b",       "16Gi", "100m", "GPU-8c25ea37-2909",
                                        "v1",   "a/b.c_d-e", "a:b",  "a,b",  "a=b@c",
                                        "1a2g", "/dev/null", "_x",   "n1",   "nvcr.io/a:1.0"};

    (void)state;
    for (size_t i = 0; i < sizeof doubtful / sizeof doubtful[0]; i++) {
        if (scalar_is_plain(str_from(doubtful[i])))
            fail_msg("%s is written without quotes", doubtful[i]);
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (!scalar_is_plain(str_from(plain[i])))
            fail_msg("%s is written with quotes", plain[i]);
    }
}

static void only_json_is_written(void **state)
{
    struct strbuf out;
    struct error err;

    (void)state;
    strbuf_init(&out);
    strbuf_puts(&out, "before");
    assert_int_equal(yaml_from_json(STR("{\"a\":}"), &out, &err), -EINVAL);
    assert_string_equal(err.text, "JSON: not valid JSON, unexpected character at byte 5");
    assert_int_equal(yaml_from_json(STR("{\"a\":1} x"), &out, NULL), -EINVAL);
    assert_string_equal(out.data, "before");
    strbuf_done(&out);
}

/* ---- there and back ---- */

static uint64_t seed;

static uint32_t pick(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

/* A string made of pieces that are known to be troublesome, next to each other. */
static void random_string(struct strbuf *out)
{
    static const char *const pieces[] = {
        "1",
        "0",
        "true",
        "null",
        "~",
        "0x10",
        "1e3",
        "-",
        "- a",
        "#x",
        " #",
        ": ",
        ":",
        "\n",
        "\n\n",
        "\r",
        "\t",
        " ",
        "  ",
        "a",
        "Z",
        "'",
        "\"",
        "\\",
        "/",
        "{",
        "}",
        "[",
        "]",
        ",",
        "&",
        "*",
        "!",
        "|",
        ">",
        "%",
        "@",
        "`",
        "?",
        "<<",
        "---",
        "...",
        "\xc3\xa4",
        "\xf0\x9f\x98\x80",
        "\xe2\x80\xa8",
        "\xc2\x85",
        "\xef\xbb\xbf",
        "\xef\xbf\xbe",
        "\x7f",
        "\x01",
        "\x1b",
        "yes",
        ".",
        "=",
        "_",
        "\xed\x9f\xbf",
        "\xf4\x8f\xbf\xbf",
    };
    struct strbuf text;
    uint32_t count = pick(4) == 0 ? pick(30) : pick(4);

    strbuf_init(&text);
    if (pick(400) == 0)
        count = 1500; /* past what a simple key may have */
    for (uint32_t i = 0; i < count; i++) {
        if (pick(40) == 0)
            strbuf_putc(&text, '\0');
        strbuf_puts(&text, pieces[pick(sizeof pieces / sizeof pieces[0])]);
    }
    strbuf_json_string(out, (struct str){text.data, text.len});
    strbuf_done(&text);
}

static void random_value(struct strbuf *out, uint32_t depth)
{
    static const char *const atoms[] = {"null", "true", "false", "0",
                                        "-0",   "-17",  "1e3",   "1.50",
                                        "2E-7", "{}",   "[]",    "123456789012345678901234567890"};
    uint32_t count = pick(5), kind = pick(depth > 6 ? 4 : 8);

    if (kind < 3) {
        random_string(out);
    } else if (kind == 3) {
        strbuf_puts(out, atoms[pick(sizeof atoms / sizeof atoms[0])]);
    } else if (kind < 6) {
        strbuf_putc(out, '[');
        for (uint32_t i = 0; i < count; i++) {
            strbuf_puts(out, i > 0 ? "," : "");
            random_value(out, depth + 1);
        }
        strbuf_putc(out, ']');
    } else {
        strbuf_putc(out, '{');
        for (uint32_t i = 0; i < count; i++) {
            size_t quote;

            strbuf_puts(out, i > 0 ? "," : "");
            quote = out->len;
            random_string(out);
            out->data[--out->len] = '\0'; /* a number behind the text keeps keys apart */
            assert_int_equal(out->data[quote], '"');
            if (i > 0)
                strbuf_printf(out, "%u", i);
            strbuf_puts(out, i > 0 ? "k\":" : "\":");
            random_value(out, depth + 1);
        }
        strbuf_putc(out, '}');
    }
}

/* JSON -> YAML -> JSON changes nothing but the letter of exponents. */
static void random_values_come_back(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 3000; round++) {
        struct strbuf json, yaml;
        struct yaml_document *documents;
        struct arena mem;
        struct error err;
        uint32_t count;

        seed = round;
        arena_init(&mem, 0);
        strbuf_init(&json);
        strbuf_init(&yaml);
        do {
            json.len = 0;
            random_value(&json, 0);
        } while (strcmp(json.data, "null") == 0); /* an empty document */
        for (char *c = json.data; (c = strstr(c, "2E-7")) != NULL;)
            c[1] = 'e';
        if (yaml_from_json((struct str){json.data, json.len}, &yaml, &err) < 0)
            fail_msg("round %d: %s\n%s", (int)round, err.text, json.data);
        if (yaml_to_json((struct str){yaml.data, yaml.len}, "y", &mem, &documents, &count, &err) <
            0)
            fail_msg("round %d: %s\n%s\n%s", (int)round, err.text, json.data, yaml.data);
        assert_int_equal(count, 1);
        if (!str_eq(documents[0].json, (struct str){json.data, json.len}))
            fail_msg("round %d\n%s\n%s\n%s", (int)round, json.data, yaml.data,
                     documents[0].json.data);
        strbuf_done(&json);
        strbuf_done(&yaml);
        arena_done(&mem);
    }
}

/* ---- memory ---- */

static void memory_may_end_anywhere(void **state)
{
    static const char yaml[] = "a: {b: [1, \"x\"]}\n---\nc: d\n";
    static const char json[] = "{\"a\":[\"x\\n\",{\"b\":\"c\"}]}";
    const struct str texts[] = {STR(yaml), STR(json)};
    struct yaml_document *documents;
    struct strbuf out;
    struct arena mem;
    struct error err;
    uint32_t count;
    long needed;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        arena_init(&mem, 0);
        mem_fail_at(0);
        assert_int_equal(yaml_to_json(texts[i], "s", &mem, &documents, &count, &err), 0);
        needed = mem_count();
        arena_done(&mem);
        assert_true(needed > 2);
        for (long n = 1; n <= needed; n++) {
            mem_fail_at(n);
            assert_int_equal(yaml_to_json(texts[i], "s", &mem, &documents, &count, &err), -ENOMEM);
            mem_fail_at(0);
            arena_done(&mem);
        }
    }
    mem_fail_at(0);
    strbuf_init(&out);
    assert_int_equal(yaml_from_json(STR(json), &out, &err), 0);
    needed = mem_count();
    strbuf_done(&out);
    for (long n = 1; n <= needed; n++) {
        mem_fail_at(n);
        assert_int_equal(yaml_from_json(STR(json), &out, &err), -ENOMEM);
        mem_fail_at(0);
        strbuf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scalars_have_types),
        cmocka_unit_test(keys_are_text),
        cmocka_unit_test(documents_are_counted),
        cmocka_unit_test(what_is_not_the_json_subset_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(json_is_read_as_json),
        cmocka_unit_test(yaml_looks_like_kubectl_s),
        cmocka_unit_test(doubtful_strings_are_quoted),
        cmocka_unit_test(only_json_is_written),
        cmocka_unit_test(random_values_come_back),
        cmocka_unit_test(memory_may_end_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
