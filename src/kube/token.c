/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/token.h"

#include <errno.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#define TOKEN_BYTES_MAX  (64 * 1024)
#define TOKEN_AGE_MAX_NS (INT64_C(60) * 1000 * 1000 * 1000)

static int64_t now_ns(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock);
}

static void cut_trailing_blanks(struct strbuf *text)
{
    while (text->len > 0 && strchr(" \t\r\n", text->data[text->len - 1]) != NULL)
        text->data[--text->len] = '\0';
}

/* It becomes part of a header line. */
static bool is_one_line(const struct strbuf *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] <= ' ' || text->data[i] > '~')
            return false;
    return text->len > 0;
}

static int read_file(const char *path, struct strbuf *out, struct error *err)
{
    int rc = file_read(path, TOKEN_BYTES_MAX, out, err);
    if (rc < 0)
        return rc;
    cut_trailing_blanks(out);
    return is_one_line(out) ? 0 : error_set(err, -EINVAL, "%s: not one line of text", path);
}

int token_init(struct token *token, const struct api_access *access, struct error *err)
{
    *token = (struct token){.file = access->token_file, .read_at_ns = now_ns()};
    if (token->file != NULL)
        return read_file(token->file, &token->text, err);
    if (access->token == NULL)
        return 0;
    strbuf_puts(&token->text, access->token);
    if (token->text.failed)
        return error_set(err, -ENOMEM, "out of memory");
    return is_one_line(&token->text) ? 0 : error_set(err, -EINVAL, "token: not one line of text");
}

void token_done(struct token *token)
{
    strbuf_done(&token->text);
}

bool token_reread(struct token *token)
{
    if (token->file == NULL)
        return false;
    struct strbuf fresh = {0};
    struct error err;
    token->read_at_ns = now_ns(); /* also after a failure: not with every request */
    if (read_file(token->file, &fresh, &err) < 0) {
        log_warning("Token file unreadable, the old token stays", LOG_TEXT("err", err.text));
        strbuf_done(&fresh);
        return false;
    }
    bool other = strcmp(fresh.data, token->text.data) != 0;
    strbuf_done(&token->text);
    token->text = fresh;
    return other;
}

void token_refresh(struct token *token)
{
    if (token->file != NULL && now_ns() - token->read_at_ns > TOKEN_AGE_MAX_NS)
        token_reread(token);
}
