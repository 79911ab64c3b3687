/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

/* One HTTP request over libcurl on a kept-alive connection. One client belongs to one thread. */
struct kube_client;

/* A client for URLs below `base_url` ("http://127.0.0.1:9876"). NULL when memory ends. The process must
 * have called curl_global_init (kube_global_init). */
struct kube_client *kube_client_new(const char *base_url, int64_t timeout_ms);

/* Close and free. NULL is fine. */
void kube_client_free(struct kube_client *client);

/* Send `method` to base_url + path with a JSON body (data NULL = none); the answer's body is appended to
 * ret_body (at most 64 MiB) and its status returned (100..599). Negative when no complete answer came:
 * -ECONNREFUSED nothing was sent, -ETIMEDOUT, -EIO. Redirects are not followed, no proxy is used. */
int kube_client_call(struct kube_client *client, const char *method, const char *path, struct str body,
                     struct strbuf *ret_body, struct error *err);

/* Once a process, before the first thread: initialise libcurl. */
void kube_global_init(void);

#endif
