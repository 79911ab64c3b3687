/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_LEASE_OBJECT_H
#define CODEC_LEASE_OBJECT_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

/* The coordination.k8s.io/v1 Lease, as far as an election uses it. */

/* Whoever released the Lease on purpose, with no binding under way, leaves its identity here. */
#define LEASE_CLEAN_STOP "deviceshare.io/clean-stop"

/* A MicroTime has exactly six digits behind the second; the API server takes no other form. */
#define MICROTIME_TEXT_MAX sizeof("2026-11-29T12:00:10.123456Z")

/* A time since 1970 in UTC, years 1000 to 9999. */
void microtime_format(int64_t unix_us, char out[MICROTIME_TEXT_MAX]);

struct lease_record {
    struct str holder; /* empty: nobody */
    int64_t duration_s;
    int64_t transitions;
    struct str acquired, renewed; /* MicroTime; empty if not given */
    struct str clean_stop;        /* annotation LEASE_CLEAN_STOP; empty if none */
};

/* Read one. Texts live in `mem`. -EINVAL with a sentence. */
int lease_object_decode(struct str body, struct arena *mem, struct lease_record *ret,
                        struct error *err);

/* Append a new object. */
void lease_object_new(struct str ns, struct str name, const struct lease_record *record,
                      struct strbuf *out);

/* Append `original` with the record's values in the place of its own. All else stays as it is, byte
 * for byte: labels, annotations of others, resourceVersion (which makes it a conditional write).
 * -EINVAL when the original is no Lease. */
int lease_object_change(struct str original, const struct lease_record *record, struct strbuf *out,
                        struct error *err);

#endif
