/* SPDX-License-Identifier: Apache-2.0 */
#include "core/names.h"

#include <stddef.h>

/* No <ctype.h>: it asks the locale. */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c);
}

/* [a-z0-9]([-a-z0-9]*[a-z0-9])?, of any length. */
static bool is_label_text(const char *text, size_t len)
{
    if (len == 0 || !is_lower_alnum(text[0]) || !is_lower_alnum(text[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_lower_alnum(text[i]) && text[i] != '-')
            return false;
    return true;
}

bool name_is_label(struct str name)
{
    return name.len <= NAME_LABEL_MAX && is_label_text(name.data, name.len);
}

/* Kubernetes bounds the whole subdomain, not the labels in it. */
bool name_is_subdomain(struct str name)
{
    if (name.len == 0 || name.len > NAME_SUBDOMAIN_MAX)
        return false;
    size_t begin = 0;
    for (size_t i = 0; i <= name.len; i++) {
        if (i < name.len && name.data[i] != '.')
            continue;
        if (!is_label_text(name.data + begin, i - begin))
            return false;
        begin = i + 1;
    }
    return true;
}

bool name_is_uid(struct str uid)
{
    if (uid.len == 0 || uid.len > NAME_UID_MAX)
        return false;
    for (size_t i = 0; i < uid.len; i++) {
        char c = uid.data[i];
        if (!is_lower_alnum(c) && !(c >= 'A' && c <= 'Z') && c != '-')
            return false;
    }
    return true;
}
