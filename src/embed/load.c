/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/cluster.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Manifests from files. */

#define FILE_BYTES_MAX ((size_t)64 << 20)

static int cannot_read(const char *path, int number, struct error *err)
{
    return error_set(err, number == ENOENT ? -ENOENT : -EIO, "%s: %s", path, strerror(number));
}

static int read_file(const char *path, struct strbuf *out, struct error *err)
{
    FILE *file = fopen(path, "re");
    int number = file == NULL ? errno : 0;

    while (file != NULL && out->len <= FILE_BYTES_MAX && strbuf_reserve(out, 65536)) {
        size_t got = fread(out->data + out->len, 1, 65536, file);

        out->len += got;
        if (got == 0) {
            number = ferror(file) ? errno : 0;
            break;
        }
    }
    if (file != NULL)
        fclose(file);
    if (out->failed)
        return error_set(err, -ENOMEM, "%s: out of memory", path);
    if (out->len > FILE_BYTES_MAX)
        return error_set(err, -EINVAL, "%s: larger than %zu MiB", path, FILE_BYTES_MAX >> 20);
    return number == 0 ? 0 : cannot_read(path, number, err);
}

static int load_file(struct cluster *cluster, const char *path, uint32_t *ret_count,
                     struct error *err)
{
    struct strbuf text;
    int result;

    strbuf_init(&text);
    result = read_file(path, &text, err);
    if (result == 0)
        result = cluster_apply(cluster, (struct str){text.data, text.len}, path, ret_count, err);
    strbuf_done(&text);
    return result;
}

/* ---- directories ---- */

struct names {
    struct arena mem;
    const char **items;
    uint32_t count, capacity;
};

/* Hidden ones are left out: ConfigMap volumes have some of every name. */
static bool is_manifest(const char *name)
{
    const char *dot = strrchr(name, '.');

    return name[0] != '.' && dot != NULL &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0);
}

static int add_name(struct names *names, const char *directory, const char *name)
{
    size_t len = strlen(directory) + 1 + strlen(name);
    char *path = arena_alloc(&names->mem, len + 1, 1);

    if (path == NULL)
        return -ENOMEM;
    snprintf(path, len + 1, "%s/%s", directory, name);
    if (names->count == names->capacity) {
        uint32_t capacity = names->capacity == 0 ? 16 : names->capacity * 2;
        const char **items = mem_realloc(names->items, capacity, sizeof *items);

        if (items == NULL)
            return -ENOMEM;
        names->items = items;
        names->capacity = capacity;
    }
    names->items[names->count++] = path;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list_directory(const char *path, struct names *names, struct error *err)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    int result = 0;

    if (directory == NULL)
        return cannot_read(path, errno, err);
    while (result == 0 && (errno = 0, entry = readdir(directory)) != NULL) {
        if (is_manifest(entry->d_name))
            result = add_name(names, path, entry->d_name);
    }
    if (result < 0)
        error_set(err, -ENOMEM, "%s: out of memory", path);
    else if (errno != 0)
        result = cannot_read(path, errno, err);
    closedir(directory);
    if (names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, compare_names);
    return result;
}

static int load_directory(struct cluster *cluster, const char *path, uint32_t *ret_count,
                          struct error *err)
{
    struct names names = {.count = 0};
    uint32_t total = 0, count = 0;
    int result;

    arena_init(&names.mem, 0);
    result = list_directory(path, &names, err);
    for (uint32_t i = 0; result == 0 && i < names.count; i++) {
        result = load_file(cluster, names.items[i], &count, err);
        total += count;
    }
    mem_free(names.items);
    arena_done(&names.mem);
    if (result == 0)
        *ret_count = total;
    return result;
}

int cluster_load(struct cluster *cluster, const char *path, uint32_t *ret_count, struct error *err)
{
    struct stat status;
    uint32_t count;
    int result;

    if (stat(path, &status) < 0)
        return cannot_read(path, errno, err);
    result = S_ISDIR(status.st_mode) ? load_directory(cluster, path, &count, err)
                                     : load_file(cluster, path, &count, err);
    if (result == 0 && ret_count != NULL)
        *ret_count = count;
    return result;
}
