/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls_peer.h"

#include <string.h>

enum { CHAIN_MAX = 8, NAME_MAX_BYTES = 1024 };

static const char *problem_of(unsigned status)
{
    if (status & GNUTLS_CERT_EXPIRED)
        return "has expired";
    if (status & GNUTLS_CERT_NOT_ACTIVATED)
        return "is not valid yet";
    if (status & GNUTLS_CERT_SIGNER_NOT_FOUND)
        return "is of an unknown CA";
    if (status & GNUTLS_CERT_PURPOSE_MISMATCH)
        return "is not one for clients";
    return "cannot be trusted"; /* forged, too weak ... */
}

/* ---- names ---- */

/* The names of one certificate, as they are gone through. */
struct search {
    const struct tls_names *allowed;
    struct tls_peer *peer;
    bool found;
};

static void see_name(struct search *search, const char *name, size_t size)
{
    struct tls_peer *peer = search->peer;
    if (peer->name[0] == '\0' && size < sizeof(peer->name)) {
        memcpy(peer->name, name, size);
        peer->name[size] = '\0';
    }
    /* By size: a name may hold a NUL, behind which another would be hidden. */
    for (uint32_t i = 0; i < search->allowed->count && !search->found; i++) {
        const char *wanted = search->allowed->items[i];
        search->found = strlen(wanted) == size && memcmp(wanted, name, size) == 0;
    }
}

static void see_common_names(struct search *search, gnutls_x509_crt_t cert)
{
    char name[NAME_MAX_BYTES];
    for (unsigned i = 0;; i++) {
        size_t size = sizeof(name);
        int code =
            gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, i, 0, name, &size);
        if (code == 0)
            see_name(search, name, size);
        else if (code != GNUTLS_E_SHORT_MEMORY_BUFFER)
            return;
    }
}

static void see_alternative_names(struct search *search, gnutls_x509_crt_t cert)
{
    char name[NAME_MAX_BYTES];
    for (unsigned i = 0;; i++) {
        size_t size = sizeof(name);
        int type = gnutls_x509_crt_get_subject_alt_name(cert, i, name, &size, NULL);
        if (type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_URI)
            see_name(search, name, size);
        else if (type < 0 && type != GNUTLS_E_SHORT_MEMORY_BUFFER)
            return;
    }
}

static bool has_allowed_name(struct tls_peer *peer, gnutls_x509_crt_t cert,
                             const struct tls_names *allowed)
{
    struct search search = {.allowed = allowed, .peer = peer, .found = allowed->count == 0};
    see_common_names(&search, cert);
    see_alternative_names(&search, cert);
    return search.found;
}

/* ---- the chain ---- */

/* Import what the client presented, its own certificate first. The number, 0 when there is none. */
static unsigned import_chain(gnutls_session_t session, gnutls_x509_crt_t *ret)
{
    unsigned presented = 0, count = 0;
    if (gnutls_certificate_type_get(session) != GNUTLS_CRT_X509)
        return 0;
    const gnutls_datum_t *raw = gnutls_certificate_get_peers(session, &presented);
    if (raw == NULL || presented > CHAIN_MAX)
        return 0;
    bool good = true;
    while (good && count < presented && gnutls_x509_crt_init(&ret[count]) == 0) {
        good = gnutls_x509_crt_import(ret[count], &raw[count], GNUTLS_X509_FMT_DER) == 0;
        count++;
    }
    if (good && count == presented)
        return count;
    while (count > 0)
        gnutls_x509_crt_deinit(ret[--count]);
    return 0;
}

static const char *problem_with(gnutls_x509_crt_t *chain, unsigned count,
                                gnutls_x509_trust_list_t ca)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned status = 0;
    int code = gnutls_x509_trust_list_verify_crt2(
        ca, chain, count, &purpose, 1, GNUTLS_PROFILE_TO_VFLAGS(GNUTLS_PROFILE_MEDIUM), &status,
        NULL);
    if (code != 0)
        return "cannot be verified";
    return status != 0 ? problem_of(status) : NULL;
}

void tls_peer_judge(struct tls_peer *peer, gnutls_session_t session, gnutls_x509_trust_list_t ca,
                    const struct tls_names *allowed)
{
    gnutls_x509_crt_t chain[CHAIN_MAX];
    unsigned count = import_chain(session, chain);
    peer->name[0] = '\0';
    if (count == 0 || ca == NULL) {
        peer->problem = "is missing";
    } else {
        bool named = has_allowed_name(peer, chain[0], allowed);
        peer->problem = problem_with(chain, count, ca);
        if (peer->problem == NULL && !named)
            peer->problem = "has no name that is allowed here";
    }
    peer->valid = peer->problem == NULL;
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
}
