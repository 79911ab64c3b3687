/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/models.h"

#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))
#define OTHERS          (UINT64_MAX << 3) /* models that have no number yet */
#define TEXT(text)      {(text), sizeof(text) - 1}

/* Bits 0, 1 and 2. */
static const struct str names[] = {TEXT(""), TEXT("A10"), TEXT("T4")};
static const struct str a10[] = {TEXT("A10")}, t4_or_new[] = {TEXT("T4"), TEXT("H100")};
static const struct str unnamed[] = {TEXT("")};

static const struct model_condition is_a10 = {true, a10, 1}, not_a10 = {false, a10, 1},
                                    is_t4 = {true, t4_or_new, 2}, has_name = {false, unnamed, 1},
                                    no_name = {true, unnamed, 1}, never = {true, NULL, 0};

static const struct model_condition not_a10_named[] = {{false, a10, 1}, {false, unnamed, 1}};
static const struct model_term a10_or_t4[] = {{&is_a10, 1}, {&is_t4, 1}};
static const struct model_term a10_or_all[] = {{&is_a10, 1}, {NULL, 0}};

static const struct {
    const char *name;
    struct model_rule rule;
    uint64_t models;
} cases[] = {
    {"nothing said", {{0}, NULL, 0}, UINT64_MAX},
    {"one model", {{&is_a10, 1}, NULL, 0}, 2},
    {"one that has a number and one that has none", {{&is_t4, 1}, NULL, 0}, 4},
    {"all but one", {{&not_a10, 1}, NULL, 0}, 5 | OTHERS},
    {"any with a name", {{&has_name, 1}, NULL, 0}, 6 | OTHERS},
    {"none with a name", {{&no_name, 1}, NULL, 0}, 1},
    {"none of an empty list", {{&never, 1}, NULL, 0}, 0},
    {"both conditions", {{not_a10_named, 2}, NULL, 0}, 4 | OTHERS},
    {"either term", {{0}, a10_or_t4, 2}, 6},
    {"a term that says nothing", {{0}, a10_or_all, 2}, UINT64_MAX},
    {"selector and terms", {{&not_a10, 1}, a10_or_t4, 2}, 4},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint64_t models = models_allowed(&cases[i].rule, names, COUNT_OF(names));
        if (models != cases[i].models)
            fail_msg("%s: %#llx", cases[i].name, (unsigned long long)models);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
