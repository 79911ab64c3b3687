/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_FLAGS_H
#define CMD_FLAGS_H

#include "base/strbuf.h"
#include "config/config.h"

/* The command line of deviceshare-extender. */

enum flags_action {
    FLAGS_RUN,
    FLAGS_VALIDATE_CONFIG,
    FLAGS_PRINT_CONFIG,
    FLAGS_PRINT_CONFIG_REFERENCE,
    FLAGS_VERSION,
    FLAGS_HELP,
};

/* A key of the configuration that a flag sets. */
struct flags_override {
    const char *key, *value;
};

#define FLAGS_OVERRIDES_MAX 16

struct flags {
    enum flags_action action;
    const char *config_path; /* NULL = defaults */
    struct flags_override overrides[FLAGS_OVERRIDES_MAX];
    unsigned override_count;
};

/* Read the command line; its strings are borrowed. 0, or -EINVAL after a message on stderr. */
int flags_parse(int argc, char **argv, struct flags *ret);

/* The configuration that the command line asks for: the file's, or the defaults, and over it the
 * flags. Called again at a reload, so that flags keep winning. 0, or -EINVAL with one problem a
 * line in `problems`, -ENOMEM; *ret is written only on success. */
int flags_load_config(const struct flags *flags, struct config *ret, struct strbuf *problems);

/* Print what --help says to stdout. */
void flags_print_help(void);

#endif
