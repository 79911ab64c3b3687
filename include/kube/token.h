/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_TOKEN_H
#define KUBE_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/api_access.h"
#include "base/error.h"
#include "base/strbuf.h"

/*
 * The bearer token of one client. A token in a file is replaced under way (kubelet renews it at 80
 * % of its life), so the file is read again when the text is older than a minute. While the file
 * cannot be read, the text read last goes on to be used.
 */
struct token {
    const char *file;   /* borrowed; NULL: the text is fixed */
    struct strbuf text; /* "" = none */
    int64_t read_at_ns; /* monotonic */
};

/* Take the token of `access` (borrowed), reading its file. 0 or negative: -EINVAL when it is not
 * one line of printable ASCII, else as file_read. */
int token_init(struct token *token, const struct api_access *access, struct error *err);

/* Free it. */
void token_done(struct token *token);

/* Read the file again if it is due. */
void token_refresh(struct token *token);

/* The server refused the token: read the file now. True when it holds another one. */
bool token_reread(struct token *token);

#endif
