/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls_material.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)

static int bad(struct error *err, const char *path, const char *what, int code)
{
    if (code == GNUTLS_E_MEMORY_ERROR)
        return error_set(err, -ENOMEM, "%s: out of memory", path);
    if (code == 0)
        return error_set(err, -EINVAL, "%s: %s", path, what);
    return error_set(err, -EINVAL, "%s: %s: %s", path, what, gnutls_strerror(code));
}

/* A file's bytes; the caller frees `text`, also after a failure. */
static int read_pem(const char *path, struct strbuf *text, gnutls_datum_t *ret, struct error *err)
{
    int rc = file_read(path, FILE_BYTES_MAX, text, err);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0) {
        err->code = -EINVAL;
        return -EINVAL;
    }
    *ret = (gnutls_datum_t){(unsigned char *)text->data, (unsigned)text->len};
    return 0;
}

/* ---- the server's certificate ---- */

static void free_certificates(gnutls_x509_crt_t *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
}

static int set_chain(struct tls_material *material, gnutls_x509_crt_t *list, unsigned count)
{
    material->chain = mem_calloc(count, sizeof(*material->chain));
    if (material->chain == NULL)
        return GNUTLS_E_MEMORY_ERROR;
    for (; material->chain_count < count; material->chain_count++) {
        int code = gnutls_pcert_import_x509(&material->chain[material->chain_count],
                                            list[material->chain_count], 0);
        if (code < 0)
            return code;
    }
    return 0;
}

static int check_dates(struct tls_material *material, gnutls_x509_crt_t cert, const char *path,
                       time_t now, struct error *err)
{
    material->expires = gnutls_x509_crt_get_expiration_time(cert);
    if (material->expires < now)
        return bad(err, path, "the certificate has expired", 0);
    if (gnutls_x509_crt_get_activation_time(cert) > now)
        return bad(err, path, "the certificate is not valid yet", 0);
    return 0;
}

static int take_chain(struct tls_material *material, const char *path, const gnutls_datum_t *pem,
                      time_t now, struct error *err)
{
    gnutls_x509_crt_t *list = NULL;
    unsigned count = 0;
    int code = gnutls_x509_crt_list_import2(&list, &count, pem, GNUTLS_X509_FMT_PEM,
                                            GNUTLS_X509_CRT_LIST_SORT);
    if (code < 0)
        return bad(err, path, "no certificates in PEM", code);
    code = set_chain(material, list, count);
    int rc = code < 0 ? bad(err, path, "not usable", code)
                      : check_dates(material, list[0], path, now, err);
    free_certificates(list, count);
    return rc;
}

static int load_chain(struct tls_material *material, const char *path, time_t now,
                      struct error *err)
{
    struct strbuf text = {0};
    gnutls_datum_t pem;
    int rc = read_pem(path, &text, &pem, err);
    if (rc == 0)
        rc = take_chain(material, path, &pem, now, err);
    strbuf_done(&text);
    return rc;
}

/* ---- its key ---- */

static bool is_key_of(gnutls_privkey_t key, const gnutls_pcert_st *cert)
{
    unsigned char ours[64], theirs[64];
    size_t our_size = sizeof(ours), their_size = sizeof(theirs);
    gnutls_pubkey_t public_key;
    if (gnutls_pubkey_init(&public_key) < 0)
        return false;
    bool same = gnutls_pubkey_import_privkey(public_key, key, 0, 0) == 0 &&
                gnutls_pubkey_get_key_id(public_key, GNUTLS_KEYID_USE_SHA256, ours, &our_size) ==
                    0 &&
                gnutls_pubkey_get_key_id(cert->pubkey, GNUTLS_KEYID_USE_SHA256, theirs,
                                         &their_size) == 0 &&
                our_size == their_size && memcmp(ours, theirs, our_size) == 0;
    gnutls_pubkey_deinit(public_key);
    return same;
}

static int load_key(struct tls_material *material, const struct tls_paths *paths,
                    struct error *err)
{
    struct strbuf text = {0};
    gnutls_datum_t pem;
    int rc = read_pem(paths->key, &text, &pem, err);
    if (rc == 0) {
        int code = gnutls_privkey_init(&material->key);
        if (code == 0)
            code =
                gnutls_privkey_import_x509_raw(material->key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
        if (code < 0)
            rc = bad(err, paths->key, "no private key in PEM", code);
        else if (!is_key_of(material->key, &material->chain[0]))
            rc = error_set(err, -EINVAL, "%s: not the key of the certificate in %s", paths->key,
                           paths->cert);
    }
    if (text.data != NULL)
        gnutls_memset(text.data, 0, text.len);
    strbuf_done(&text);
    return rc;
}

/* ---- the CA of the clients ---- */

static int load_client_ca(struct tls_material *material, const char *path, struct error *err)
{
    struct strbuf text = {0};
    gnutls_datum_t pem;
    int rc = read_pem(path, &text, &pem, err);
    if (rc == 0) {
        int code = gnutls_x509_trust_list_init(&material->client_ca, 0);
        if (code == 0)
            code = gnutls_x509_trust_list_add_trust_mem(material->client_ca, &pem, NULL,
                                                        GNUTLS_X509_FMT_PEM, 0, 0);
        if (code <= 0)
            rc = bad(err, path, "no certificates in PEM", code);
    }
    strbuf_done(&text);
    return rc;
}

/* ---- all of it ---- */

int tls_material_load(const struct tls_paths *paths, time_t now, struct tls_material **ret,
                      struct error *err)
{
    struct error why = {0};
    struct tls_material *material = mem_calloc(1, sizeof(*material));
    if (material == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    material->references = 1;
    int rc = load_chain(material, paths->cert, now, &why);
    if (rc == 0)
        rc = load_key(material, paths, &why);
    if (rc == 0 && paths->client_ca[0] != '\0')
        rc = load_client_ca(material, paths->client_ca, &why);
    if (rc < 0) {
        tls_material_unref(material);
        return error_set(err, rc, "%s", why.text);
    }
    *ret = material;
    return 0;
}

struct tls_material *tls_material_ref(struct tls_material *material)
{
    material->references++;
    return material;
}

void tls_material_unref(struct tls_material *material)
{
    if (material == NULL || --material->references > 0)
        return;
    for (unsigned i = 0; i < material->chain_count; i++)
        gnutls_pcert_deinit(&material->chain[i]);
    mem_free(material->chain);
    if (material->key != NULL)
        gnutls_privkey_deinit(material->key);
    if (material->client_ca != NULL)
        gnutls_x509_trust_list_deinit(material->client_ca, 1);
    mem_free(material);
}
