/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_TLS_SESSION_H
#define HTTP_TLS_SESSION_H

#include <gnutls/gnutls.h>

#include "http/tls.h"
#include "http/tls_material.h"
#include "http/tls_peer.h"

/* What the server asks of struct tls for one connection. */

/* Protocol versions and algorithms. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* The newest material; the caller gives the reference back. */
struct tls_material *tls_current(struct tls *tls);

/* Judge the client's certificate, unless that was done a moment ago by the same CA. */
void tls_judge(struct tls *tls, gnutls_session_t session, struct tls_peer *peer);

#endif
