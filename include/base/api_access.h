/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_API_ACCESS_H
#define BASE_API_ACCESS_H

#include <stdbool.h>

/*
 * How to reach an API server and who to be there: plain data, filled from a kubeconfig
 * (config/kubeconfig.h) or from the service account of the pod we run in (kube/incluster.h). Texts
 * are NUL-terminated and live in the arena of whoever filled it; NULL = not given. Secrets: never
 * logged.
 */
struct api_access {
    const char *server; /* "https://host:port", without a trailing slash */
    const char
        *tls_server_name; /* verify the certificate for this name instead of the URL's host */
    bool insecure;        /* only when the kubeconfig says insecure-skip-tls-verify */
    const char *ca_file, *ca_pem;
    const char *client_cert_file, *client_cert_pem;
    const char *client_key_file, *client_key_pem;
    const char *token; /* bearer token */
    const char
        *token_file; /* wins over token; read again when older than a minute, and once on 401 */
    const char *ns;  /* default namespace of the context, or our own */
};

#endif
