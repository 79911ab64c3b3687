/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CHANNEL_H
#define HTTP_CHANNEL_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>

#include "http/connections.h"
#include "http/tls.h"
#include "http/tls_material.h"
#include "http/tls_peer.h"

/* An accepted socket as the library sees it, and who is at its other end. Used by the connection's
 * own thread. */
struct channel {
    struct connections *table;
    struct connection *connection;
    struct tls *tls; /* NULL = plain */
    gnutls_session_t session;
    struct tls_material *material; /* of its handshake; NULL before */
    struct tls_peer peer;
};

/* A connection was accepted: enter it into the table and prepare its handshake. NULL, and the
 * socket shut down, when memory ends. */
struct channel *channel_open(struct MHD_Connection *connection, struct connections *table,
                             struct tls *tls, bool asks_client);

/* The connection is about to be closed. NULL is fine. */
void channel_close(struct channel *channel);

/* That of a connection; NULL when memory ended as it was accepted. */
struct channel *channel_of(struct MHD_Connection *connection);

/* As connections_enter. */
bool channel_enter(struct channel *channel, enum connection_phase phase);

/* Bring channel->peer up to date. */
void channel_judge(struct channel *channel);

/* A client said hello: with what certificate is it answered? For
 * MHD_OPTION_HTTPS_CERT_CALLBACK2. */
int channel_on_hello(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                     gnutls_pcert_st **chain, unsigned *chain_count, gnutls_ocsp_data_st **ocsp,
                     unsigned *ocsp_count, gnutls_privkey_t *key, unsigned *flags);

#endif
