/* SPDX-License-Identifier: Apache-2.0 */
#include "http_messages.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

static struct str skip(struct str text, size_t count)
{
    return (struct str){text.data + count, text.len - count};
}

/* The text before the next CR LF; false when there is none, or a CR, LF or NUL in it. */
static bool take_line(struct str *rest, struct str *ret)
{
    for (size_t i = 0; i + 1 < rest->len; i++) {
        char c = rest->data[i];
        if (c == '\r' && rest->data[i + 1] == '\n') {
            *ret = (struct str){rest->data, i};
            *rest = skip(*rest, i + 2);
            return true;
        }
        if (c == '\r' || c == '\n' || c == '\0')
            return false;
    }
    return false;
}

static bool is_nocase(struct str text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.data, word, text.len) == 0;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* "Name: value" with one blank, and none at the value's ends. */
static bool read_header(struct str line, struct str *name, struct str *value)
{
    size_t i = 0;
    while (i < line.len && is_name_char(line.data[i]))
        i++;
    if (i == 0 || i + 1 >= line.len || line.data[i] != ':' || line.data[i + 1] != ' ')
        return false;
    *name = (struct str){line.data, i};
    *value = skip(line, i + 2);
    for (size_t at = 0; at < value->len; at++) {
        if (value->data[at] < ' ' || value->data[at] > '~')
            return false;
    }
    return value->len > 0 && value->data[0] != ' ' && value->data[value->len - 1] != ' ';
}

static bool read_number(struct str text, unsigned base, size_t digits_max, uint64_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;
    if (text.len == 0 || text.len > digits_max)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        const char *at = c != '\0' ? memchr(digits, c, base) : NULL;
        if (at == NULL)
            return false;
        value = value * base + (uint64_t)(at - digits);
    }
    *ret = value;
    return true;
}

static bool read_request_line(struct str line, struct plain_request *ret)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};
    static const char version[] = " HTTP/1.1";
    const size_t version_len = sizeof version - 1;
    const char *blank = line.len > 0 ? memchr(line.data, ' ', line.len) : NULL;
    if (blank == NULL || line.len < version_len)
        return false;
    struct str end = skip(line, line.len - version_len);
    ret->method = (struct str){line.data, (size_t)(blank - line.data)};
    if (!str_is(end, version) || end.data <= blank)
        return false;
    bool known = false;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        known |= str_is(ret->method, methods[i]);
    struct str target = {blank + 1, (size_t)(end.data - blank - 1)};
    if (!known || target.len == 0 || target.data[0] != '/')
        return false;
    for (size_t i = 0; i < target.len; i++) {
        if (target.data[i] <= ' ' || target.data[i] > '~' || target.data[i] == '#')
            return false;
    }
    const char *mark = memchr(target.data, '?', target.len);
    ret->path = (struct str){target.data, mark != NULL ? (size_t)(mark - target.data) : target.len};
    ret->query = mark != NULL ? skip(target, ret->path.len + 1) : (struct str){"", 0};
    return true;
}

struct headers {
    unsigned hosts, lengths, codings;
    bool chunked; /* the last coding */
    uint64_t length;
};

/* What these mean is not compared: they make the server answer early, or close, or look at more. */
static bool is_odd_name(struct str name)
{
    static const char *const odd[] = {"Expect", "Connection", "Upgrade", "Cookie", "Trailer", "TE"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        if (is_nocase(name, odd[i]))
            return true;
    }
    return false;
}

static bool take_header(struct str name, struct str value, struct headers *headers)
{
    if (is_odd_name(name))
        return false;
    if (is_nocase(name, "Host"))
        headers->hosts++;
    if (is_nocase(name, "Content-Length")) {
        headers->lengths++;
        return read_number(value, 10, 9, &headers->length);
    }
    if (is_nocase(name, "Transfer-Encoding")) {
        headers->codings++;
        headers->chunked = is_nocase(value, "chunked");
    }
    return true;
}

static enum plain read_chunks(struct str *rest, char *room, struct str *ret)
{
    size_t len = 0;
    for (;;) {
        struct str line;
        uint64_t size;
        if (!take_line(rest, &line))
            return PLAIN_OTHER;
        if (!read_number(line, 16, 4, &size))
            return PLAIN_OTHER;
        if (rest->len < size + 2 || memcmp(rest->data + size, "\r\n", 2) != 0)
            return PLAIN_OTHER;
        if (size == 0)
            break;
        memcpy(room + len, rest->data, size);
        len += size;
        *rest = skip(*rest, size + 2);
    }
    *rest = skip(*rest, 2);
    *ret = (struct str){room, len};
    return PLAIN_READ;
}

enum plain plain_request_next(struct str *rest, char *room, struct plain_request *ret)
{
    struct str line, at = *rest;
    struct headers headers = {0};
    *ret = (struct plain_request){0};
    if (!take_line(&at, &line) || !read_request_line(line, ret))
        return PLAIN_OTHER;
    for (;;) {
        struct str name, value;
        if (!take_line(&at, &line))
            return memchr(at.data, '\n', at.len) == NULL ? PLAIN_UNFINISHED : PLAIN_OTHER;
        if (line.len == 0)
            break;
        if (!read_header(line, &name, &value) || !take_header(name, value, &headers))
            return PLAIN_OTHER;
    }
    if (headers.hosts != 1 || headers.lengths + headers.codings > 1 ||
        (headers.codings == 1 && !headers.chunked))
        return PLAIN_AMBIGUOUS;
    *rest = at;
    ret->body = (struct str){"", 0};
    ret->stated = headers.lengths == 1;
    if (headers.codings == 1)
        return read_chunks(rest, room, &ret->body);
    if (headers.length > rest->len)
        return PLAIN_UNFINISHED;
    ret->body = (struct str){rest->data, headers.length};
    *rest = skip(*rest, headers.length);
    return PLAIN_READ;
}

/* "HTTP/1.1 200 OK" */
static bool read_status_line(struct str line, unsigned *ret)
{
    uint64_t status;
    if (line.len < 13 || (strncmp(line.data, "HTTP/1.1 ", 9) != 0 && strncmp(line.data, "HTTP/1.0 ", 9) != 0) ||
        !read_number((struct str){line.data + 9, 3}, 10, 3, &status) || line.data[12] != ' ')
        return false;
    *ret = (unsigned)status;
    return status >= 100 && status < 600;
}

bool plain_answer_next(struct str *rest, bool head, struct plain_answer *ret)
{
    struct str line;
    uint64_t length = 0;
    unsigned lengths = 0;
    *ret = (struct plain_answer){0};
    if (!take_line(rest, &line) || !read_status_line(line, &ret->status))
        return false;
    for (;;) {
        struct str name, value;
        if (!take_line(rest, &line))
            return false;
        if (line.len == 0)
            break;
        if (!read_header(line, &name, &value) || is_nocase(name, "Transfer-Encoding"))
            return false;
        if (is_nocase(name, "Content-Length")) {
            lengths++;
            if (!read_number(value, 10, 9, &length))
                return false;
        }
        ret->close |= is_nocase(name, "Connection") && is_nocase(value, "close");
        ret->json |= is_nocase(name, "Content-Type") && is_nocase(value, "application/json");
    }
    if (lengths != (ret->status == 100 ? 0 : 1))
        return false;
    length = head ? 0 : length;
    if (length > rest->len)
        return false;
    ret->body = (struct str){rest->data, length};
    *rest = skip(*rest, length);
    return true;
}
