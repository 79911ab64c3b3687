/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/peek.h"

uint64_t peek_version(struct str text)
{
    uint64_t number = 0;
    if (text.len == 0 || text.len > 19 || text.data[0] == '0')
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    return number;
}

/* Take the string at the start of *rest and the character behind it; false if that is not what is there,
 * or the string has an escape. */
static bool take_string(struct str *rest, struct str *ret_text, char *ret_behind)
{
    if (rest->len == 0 || rest->data[0] != '"')
        return false;
    const char *start = rest->data + 1;
    const char *quote = memchr(start, '"', rest->len - 1);
    if (quote == NULL || quote + 1 == rest->data + rest->len)
        return false;
    *ret_text = (struct str){start, (size_t)(quote - start)};
    *ret_behind = quote[1];
    rest->len -= (size_t)(quote + 2 - rest->data);
    rest->data = quote + 2;
    return memchr(start, '\\', ret_text->len) == NULL;
}

bool peek_object(struct str json, struct str *ret_uid, uint64_t *ret_version)
{
    const struct str begin = STR("{\"metadata\":{");
    struct str uid = {NULL, 0}, rest = {json.data + begin.len, json.len - begin.len};
    uint64_t version = 0;
    if (json.len < begin.len || memcmp(json.data, begin.data, begin.len) != 0)
        return false;
    while (uid.len == 0 || version == 0) {
        struct str key, value;
        char behind;
        if (!take_string(&rest, &key, &behind) || behind != ':' ||
            !take_string(&rest, &value, &behind) || behind != ',')
            return false;
        if (str_is(key, "uid"))
            uid = value;
        else if (str_is(key, "resourceVersion"))
            version = peek_version(value);
    }
    *ret_uid = uid;
    *ret_version = version;
    return true;
}
