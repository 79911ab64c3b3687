/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_TLS_MATERIAL_H
#define HTTP_TLS_MATERIAL_H

#include <stdint.h>
#include <time.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/error.h"

/* One reading of the TLS files: immutable, shared by the connections that began with it. */
struct tls_material {
    gnutls_pcert_st *chain; /* the server's certificate first */
    unsigned chain_count;
    gnutls_privkey_t key;
    gnutls_x509_trust_list_t client_ca; /* NULL = clients are not asked */
    time_t expires;                     /* the server's certificate */
    uint64_t generation;                /* set by whoever counts */
    _Atomic unsigned references;
};

/* Where it is read from; client_ca may be "". */
struct tls_paths {
    const char *cert, *key, *client_ca;
};

/* Read the three files. -EINVAL with "FILE: sentence" when they cannot be served, -ENOMEM. The
 * caller has the one reference. */
int tls_material_load(const struct tls_paths *paths, time_t now, struct tls_material **ret,
                      struct error *err);

/* One more user. */
struct tls_material *tls_material_ref(struct tls_material *material);

/* One user less; the last one frees it. NULL is fine. */
void tls_material_unref(struct tls_material *material);

#endif
