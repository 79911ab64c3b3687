/* SPDX-License-Identifier: Apache-2.0 */
#include "http/framing.h"

#include <string.h>
#include <strings.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum MHD_Result count_header(void *self, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    struct framing *framing = self;
    size_t length = strlen(key);
    (void)kind;
    framing->blank_name |= length == 0 || is_blank(key[0]) || is_blank(key[length - 1]);
    if (strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0) {
        framing->hosts++;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        framing->lengths++;
        framing->length = value;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        framing->encodings++;
        framing->encoding = value;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_EXPECT) == 0) {
        framing->expects = true;
    }
    return MHD_YES;
}

void framing_read(struct MHD_Connection *connection, struct framing *ret)
{
    *ret = (struct framing){0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_header, ret);
}

static bool has_body(const struct framing *framing)
{
    return framing->encodings > 0 ||
           (framing->lengths > 0 && framing->length[strspn(framing->length, "0")] != '\0');
}

const char *framing_problem(const struct framing *framing, const char *version)
{
    if (framing->blank_name)
        return "a header's name begins or ends with a blank";
    if (framing->hosts != 1 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
        return "an HTTP/1.1 request needs exactly one Host header";
    if (framing->lengths > 1)
        return "more than one Content-Length header";
    if (framing->lengths > 0 && framing->encodings > 0)
        return "Content-Length together with Transfer-Encoding";
    if (framing->encodings > 1 ||
        (framing->encodings == 1 && strcasecmp(framing->encoding, "chunked") != 0))
        return "the only Transfer-Encoding understood is chunked";
    /* The library would take what follows for its body, and then find that there is none. */
    if (framing->expects && !has_body(framing))
        return "Expect without a body";
    return NULL;
}
