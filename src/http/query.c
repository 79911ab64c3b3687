/* SPDX-License-Identifier: Apache-2.0 */
#include "http/query.h"

/* What comes before the first `mark`, or all; *text becomes what comes behind it. */
static struct str cut(struct str *text, char mark)
{
    const char *found = text->len > 0 ? memchr(text->data, mark, text->len) : NULL;
    struct str before = {text->data, found != NULL ? (size_t)(found - text->data) : text->len};
    size_t used = before.len + (found != NULL);
    *text = text->data != NULL ? (struct str){text->data + used, text->len - used} : *text;
    return before;
}

bool query_find(struct str query, const char *name, struct str *ret_value)
{
    while (query.len > 0) {
        struct str value = cut(&query, '&');
        struct str key = cut(&value, '=');
        if (!str_is(key, name))
            continue;
        if (ret_value != NULL)
            *ret_value = value;
        return true;
    }
    return false;
}
