/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "config/config.h"

/*
 * The table of configuration keys. A new key is a field in struct config and a row here; files,
 * flags, defaults, --print-config and the reference page follow from the row.
 */
enum key_type { KEY_TEXT, KEY_LIST, KEY_WORD, KEY_BOOL, KEY_INTEGER, KEY_DURATION };

struct config_key {
    const char *path; /* "server.port" */
    enum key_type type;
    bool reloadable;
    bool is_path;         /* KEY_TEXT: of a file, relative to the configuration file */
    size_t offset;        /* of the field in struct config */
    size_t size;          /* KEY_TEXT: bytes of the field, with its NUL */
    int64_t min, max;     /* KEY_INTEGER, and KEY_DURATION in milliseconds: inclusive */
    const char *words;    /* KEY_WORD: "close|ignore", in the order of the field's enum */
    const char *standard; /* the default, as text */
    /* KEY_TEXT: what is wrong with a value, as the end of "KEY: VALUE ..."; NULL = nothing. May be
     * NULL. */
    const char *(*check)(struct str value);
    /* KEY_TEXT: the values there are, joined by '|', if they are a closed list. May be NULL. */
    const char *(*choices)(void);
    const char *help;
};

/* A group of keys: the part of their paths before the last dot. */
struct config_section {
    const char *name; /* "server", or "server.tls" inside of it */
    const char *help;
};

extern const struct config_key config_keys[];
extern const uint32_t config_key_count;
extern const struct config_section config_sections[];
extern const uint32_t config_section_count;

/* The row of a whole path, or NULL. */
const struct config_key *config_key_find(struct str path);

/* The section called `name`, or NULL. */
const struct config_section *config_section_find(struct str name);

/* The known key or section that `path` was most likely meant to be, or an empty slice. */
struct str config_key_nearest(struct str path);

/* Set the key's field from text. -EINVAL with "KEY: sentence", and the field as it was. */
int config_key_set(const struct config_key *key, struct config *config, struct str value,
                   struct error *err);

/* KEY_LIST: append one item to the field. -EINVAL with "KEY: sentence", and the field as it was. */
int config_key_add(const struct config_key *key, struct config *config, struct str item,
                   struct error *err);

/* The text of a KEY_TEXT field, key->size bytes. */
char *config_key_text(const struct config_key *key, struct config *config);

/* Append the field's value as YAML. */
void config_key_print(const struct config_key *key, const struct config *config,
                      struct strbuf *out);

/* Append what may stand there: "integer, 0 to 65535". */
void config_key_print_type(const struct config_key *key, struct strbuf *out);

/* The same value in both. */
bool config_key_equal(const struct config_key *key, const struct config *a, const struct config *b);

#endif
