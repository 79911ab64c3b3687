/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/api_access.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

/*
 * HTTP/1.1 requests over libcurl on a kept-alive connection. One client belongs to one thread; only
 * kube_client_interrupt may be called from another. TLS is verified unless the access says
 * otherwise; redirects are not followed, no proxy is used.
 */
struct kube_client;

/* Once a process, before the first thread: initialise libcurl. */
void kube_global_init(void);

/* A client for URLs below access->server (the access is borrowed). `timeout_ms` is that of a call
 * which states none; so long too, and 30 s at most, bytes may stay unacknowledged before the kernel
 * gives the connection up, also when this process is gone. NULL when memory ends or a file of the
 * access cannot be used. */
struct kube_client *kube_client_open(const struct api_access *access, int64_t timeout_ms,
                                     struct error *err);

/* The same for a plain base URL without credentials. NULL when memory ends. */
struct kube_client *kube_client_new(const char *base_url, int64_t timeout_ms);

/* Close and free. NULL is fine. */
void kube_client_free(struct kube_client *client);

/* One request. */
struct kube_request {
    const char *method;
    const char *path;         /* with its query, names already escaped or of Kubernetes syntax */
    struct str body;          /* data NULL = none */
    const char *content_type; /* NULL = application/json */
    int64_t timeout_ms;       /* for the whole call; 0 = the client's */
    /* Asked each time the request is about to go out, also when libcurl repeats it by itself on a
     * dead reused connection: false stops it and the call returns -ECANCELED. NULL = always. */
    bool (*may_send)(void *self);
    void *may_send_self;
};

struct kube_response {
    int status;             /* 100..599 */
    int64_t retry_after_ms; /* from Retry-After; -1 = none */
    bool sent; /* set also on failure: some byte of the request may have reached the server */
};

/* Send it; the answer's body is appended to ret_body (at most 64 MiB). 0 = a complete answer came,
 * whatever its status. Negative when none came: -ECANCELED may_send said no before anything was
 * sent, or the call was interrupted (`sent` tells); -ECONNREFUSED nothing was sent; -ETIMEDOUT;
 * -ENOMEM; -EIO. ret_response is always filled. After a 401 a token file is read again, and if it
 * holds another token the request goes out once more. */
int kube_client_send(struct kube_client *client, const struct kube_request *request,
                     struct strbuf *ret_body, struct kube_response *ret_response,
                     struct error *err);

/* Short form: returns the status, or negative as above. */
int kube_client_call(struct kube_client *client, const char *method, const char *path,
                     struct str body, struct strbuf *ret_body, struct error *err);

/* GET whose body goes to `take` piece by piece as it arrives, if the status is 200 (else to
 * ret_body, cut at 64 KiB). The first piece is empty and comes as soon as the server has said 200.
 * `take` returns 0 to go on or a negative code, which ends the call with it. `idle_ms` without a
 * byte ends it with -ETIMEDOUT (0 = no bound). An answer that does not say it is JSON is -EIO. 0 =
 * the server ended the answer. */
int kube_client_stream(struct kube_client *client, const char *path, int64_t timeout_ms,
                       int64_t idle_ms, int (*take)(void *self, const char *data, size_t len),
                       void *self, struct strbuf *ret_body, struct kube_response *ret_response,
                       struct error *err);

/* End a running kube_client_stream or kube_client_send at once with -ECANCELED, and every later one
 * too. Any thread. */
void kube_client_interrupt(struct kube_client *client);

/* Take an interruption back: calls run again. */
void kube_client_resume(struct kube_client *client);

#endif
