/* SPDX-License-Identifier: Apache-2.0 */
#include "http/channel.h"

#include "base/mem.h"
#include "http/tls_session.h"

#include <sys/socket.h>

struct channel *channel_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* The library makes its connection the session's pointer. */
static struct channel *channel_of_session(gnutls_session_t session)
{
    return channel_of(gnutls_session_get_ptr(session));
}

int channel_on_hello(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                     gnutls_pcert_st **chain, unsigned *chain_count, gnutls_ocsp_data_st **ocsp,
                     unsigned *ocsp_count, gnutls_privkey_t *key, unsigned *flags)
{
    struct channel *channel = channel_of_session(session);
    (void)info;
    if (channel == NULL)
        return -1;
    if (channel->material == NULL)
        channel->material = tls_current(channel->tls);
    *chain = channel->material->chain; /* lives as long as the channel */
    *chain_count = channel->material->chain_count;
    *key = channel->material->key;
    *ocsp = NULL;
    *ocsp_count = 0;
    *flags = 0;
    return 0;
}

/* A Finished message was sent or received: with the client's the handshake is over. */
static int on_finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                       const gnutls_datum_t *message)
{
    struct channel *channel = channel_of_session(session);
    (void)type;
    (void)when;
    (void)message;
    if (incoming && channel != NULL)
        channel_enter(channel, CONNECTION_IDLE);
    return 0;
}

static void prepare_handshake(struct channel *channel, struct MHD_Connection *connection,
                              bool asks_client)
{
    channel->session =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
    gnutls_handshake_set_hook_function(channel->session, GNUTLS_HANDSHAKE_FINISHED,
                                       GNUTLS_HOOK_POST, on_finished);
    /* Only asked: those who have none may still look at the health. */
    if (asks_client)
        gnutls_certificate_server_set_request(channel->session, GNUTLS_CERT_REQUEST);
}

static uint32_t peer_of(const struct connections *table, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info != NULL && info->client_addr != NULL ? connections_peer(table, info->client_addr)
                                                     : 0;
}

struct channel *channel_open(struct MHD_Connection *connection, struct connections *table,
                             struct tls *tls, bool asks_client)
{
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct channel *channel = mem_calloc(1, sizeof(*channel));
    if (channel != NULL)
        channel->connection = connections_add(table, fd, tls != NULL, peer_of(table, connection));
    if (channel == NULL || channel->connection == NULL) {
        shutdown(fd, SHUT_RDWR);
        mem_free(channel);
        return NULL;
    }
    channel->table = table;
    channel->tls = tls;
    if (tls != NULL)
        prepare_handshake(channel, connection, asks_client);
    return channel;
}

void channel_close(struct channel *channel)
{
    if (channel == NULL)
        return;
    connections_remove(channel->table, channel->connection);
    tls_material_unref(channel->material);
    mem_free(channel);
}

bool channel_enter(struct channel *channel, enum connection_phase phase)
{
    return connections_enter(channel->table, channel->connection, phase);
}

void channel_judge(struct channel *channel)
{
    tls_judge(channel->tls, channel->session, &channel->peer);
}
