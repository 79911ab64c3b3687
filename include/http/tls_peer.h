/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_TLS_PEER_H
#define HTTP_TLS_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

/* Who is at the other end of a connection; zeroed when it begins. One thread at a time. */
struct tls_peer {
    bool valid;
    const char *problem;  /* not valid: why, as the rest of "the client certificate ..." */
    char name[256];       /* its common name, or else its first alternative name; "" */
    uint64_t generation;  /* of the CA by which it was judged; 0 = not judged yet */
    int64_t judged_at_ns; /* certificates expire while connections stay open */
};

struct tls_names {
    char **items;
    uint32_t count;
};

/* Judge the certificate that the client of `session` presented: signed by `ca` (NULL: nobody is),
 * in its time, meant for clients, strong enough, and with one of the `allowed` names, if there are
 * any. Sets valid, problem and name. */
void tls_peer_judge(struct tls_peer *peer, gnutls_session_t session, gnutls_x509_trust_list_t ca,
                    const struct tls_names *allowed);

#endif
