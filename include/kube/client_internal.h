/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_CLIENT_INTERNAL_H
#define KUBE_CLIENT_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kube/client.h"
#include "kube/token.h"

#include <curl/curl.h>

/* For src/kube/client*.c only. */

enum client_pem { CLIENT_PEM_CA, CLIENT_PEM_CERT, CLIENT_PEM_KEY, CLIENT_PEM_MAX };

/* One easy handle, driven through a multi handle of its own: only that one can be woken by another
 * thread. */
struct kube_client {
    CURL *easy;
    CURLM *multi;
    atomic_bool interrupted;
    int64_t timeout_ms;
    struct strbuf url; /* the base, then the path of the call */
    size_t base_len;
    struct strbuf host_header;     /* "Host: ..." when the URL carries another name; else empty */
    struct curl_slist *connect_to; /* where that name is */
    struct token token;
    int pem_fd[CLIENT_PEM_MAX]; /* texts of the access as files; -1 = none */
    char error[CURL_ERROR_SIZE];
};

/* Set what is the same for every request: URL, trust, identity, connection. 0, -EINVAL, -ENOMEM or
 * the errno of a file. What was set up is freed by kube_client_free in any case. */
int client_setup(struct kube_client *client, const struct api_access *access, struct error *err);

#endif
