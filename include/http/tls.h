/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * The server's certificate and the CA of its clients, from files that may change: they are looked
 * at once a second at most, when somebody begins a handshake, asks for something or asks whether
 * all is well. A new set that is no good is logged once and changes nothing but tls_healthy().
 * Connections keep what they began with; which clients are let in is always judged by the newest
 * CA. Thread safe.
 */
struct tls;

/* Paths of files in PEM; strings and list are copied. */
struct tls_options {
    const char *cert_file, *key_file;
    const char *client_ca_file; /* "" = clients are not asked for certificates */
    /* Names (common name, or DNS or URI alternative name) of which a client must have one; none =
     * any client of the CA. */
    const char *const *allowed;
    uint32_t allowed_count;
};

/* Read the files. -EINVAL with a sentence naming the file for what cannot be served: unreadable or
 * not PEM, a key that is not the certificate's, a certificate that has expired; -ENOMEM. */
int tls_open(const struct tls_options *options, struct tls **ret, struct error *err);

/* Free it; no server uses it any more. NULL is fine. */
void tls_close(struct tls *tls);

/* Look at the files. False when what they hold now could not be served, or the certificate in use
 * has expired. */
bool tls_healthy(struct tls *tls);

/* Callers of verbs need a certificate. */
bool tls_asks_clients(const struct tls *tls);

#endif
