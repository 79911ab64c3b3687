/* SPDX-License-Identifier: Apache-2.0 */
#include "config/keys.h"

#include <string.h>

/* The two ways to write the table out: as a configuration file and as a page of the documentation.
 */

#define LINE_COLUMNS 96

/* Append `text` as comment lines, broken between words. */
static void print_comment(const char *text, uint32_t indent, struct strbuf *out)
{
    uint32_t column = 0;

    while (*text != '\0') {
        size_t word = strcspn(text, " ");

        if (column > 0 && column + 1 + word > LINE_COLUMNS) {
            strbuf_putc(out, '\n');
            column = 0;
        }
        if (column == 0) {
            strbuf_printf(out, "%*s#", (int)indent, "");
            column = indent + 1;
        }
        strbuf_putc(out, ' ');
        strbuf_add(out, text, word);
        column += 1 + (uint32_t)word;
        text += word + (text[word] == ' ');
    }
    strbuf_putc(out, '\n');
}

#define INDENT 2

/* The part of a path before its last dot. */
static struct str section_of(struct str path)
{
    while (path.len > 0 && path.data[path.len - 1] != '.')
        path.len--;
    path.len -= path.len > 0;
    return path;
}

/* Columns that the content of a section is indented by. */
static uint32_t depth_of(struct str section)
{
    uint32_t depth = section.len > 0 ? INDENT : 0;

    for (size_t i = 0; i < section.len; i++)
        depth += section.data[i] == '.' ? INDENT : 0;
    return depth;
}

/* Open a section, and those around it that are not open. */
static void print_section(struct str section, struct str open, struct strbuf *out)
{
    struct str outer = section_of(section);

    if (section.len == 0)
        return;
    bool is_open = str_eq(section, open) ||
                   (open.len > section.len && open.data[section.len] == '.' &&
                    memcmp(open.data, section.data, section.len) == 0);
    if (is_open)
        return;
    print_section(outer, open, out);
    print_comment(config_section_find(section)->help, depth_of(outer), out);
    section.data += outer.len > 0 ? outer.len + 1 : 0;
    section.len -= outer.len > 0 ? outer.len + 1 : 0;
    strbuf_printf(out, "%*s%.*s:\n", (int)depth_of(outer), "", STR_ARG(section));
}

static void print_key(const struct config_key *key, const struct config *config, struct strbuf *out)
{
    struct str section = section_of(str_from(key->path));
    uint32_t indent = depth_of(section);
    const char *name = key->path + section.len + (section.len > 0);

    print_comment(key->help, indent, out);
    strbuf_printf(out, "%*s# [", (int)indent, "");
    config_key_print_type(key, out);
    strbuf_puts(out, key->reloadable ? "; taken over by a reload]\n" : "; needs a restart]\n");
    strbuf_printf(out, "%*s%s: ", (int)indent, "", name);
    config_key_print(key, config, out);
    strbuf_putc(out, '\n');
}

void config_print(const struct config *config, struct strbuf *out)
{
    struct str open = STR("");

    print_comment(
        "Configuration of deviceshare-extender: every key, what it means and what may stand "
        "there.",
        0, out);
    print_comment(
        "A key that is left out has its default; deviceshare-extender --print-config without "
        "a configuration prints this text with all defaults. SIGHUP reloads the file.",
        0, out);
    strbuf_puts(out, "apiVersion: " CONFIG_API_VERSION "\nkind: " CONFIG_KIND "\n");

    for (uint32_t i = 0; i < config_key_count; i++) {
        struct str section = section_of(str_from(config_keys[i].path));

        strbuf_putc(out, '\n');
        print_section(section, open, out);
        open = section;
        print_key(&config_keys[i], config, out);
    }
}

void config_print_reference(struct strbuf *out)
{
    struct config defaults;

    config_defaults(&defaults);
    strbuf_puts(out, "| key | value | default | reload | meaning |\n|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];

        strbuf_printf(out, "| `%s` | ", key->path);
        config_key_print_type(key, out);
        strbuf_puts(out, " | `");
        config_key_print(key, &defaults, out);
        strbuf_printf(out, "` | %s | %s |\n", key->reloadable ? "yes" : "no", key->help);
    }
}
