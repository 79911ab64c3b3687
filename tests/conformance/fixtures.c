/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN_FIXTURES "tests/data/vectors/koordinator/fixtures.json"

/* The file that was read last; records of one directory come together. */
static struct {
    char path[PATH_MAX];
    json_object *root;
} beside, own;

static json_object *decisions;

static void load(char current[PATH_MAX], json_object **root, const char *path)
{
    if (strcmp(current, path) == 0)
        return;
    json_object_put(*root);
    (void)snprintf(current, PATH_MAX, "%s", path);
    *root = access(path, R_OK) == 0 ? json_object_from_file(path) : NULL;
}

json_object *fixture_find(const char *file, const char *name)
{
    char path[PATH_MAX];
    const char *slash = strrchr(file, '/');
    int directory = slash != NULL ? (int)(slash - file) + 1 : 0;
    (void)snprintf(path, sizeof(path), "%.*sfixtures.json", directory, file);
    load(beside.path, &beside.root, path);
    json_object *found = json_get(json_get(beside.root, "fixtures"), name);
    if (found == NULL && tree_path(OWN_FIXTURES, path, sizeof(path))) {
        load(own.path, &own.root, path);
        found = json_get(json_get(own.root, "fixtures"), name);
    }
    return found;
}

void fixtures_free(void)
{
    json_object_put(beside.root);
    json_object_put(own.root);
    beside.root = own.root = NULL;
    beside.path[0] = own.path[0] = '\0';
}

bool tree_path(const char *relative, char *out, size_t size)
{
    if (snprintf(out, size, "%s", relative) < (int)size && access(out, R_OK) == 0)
        return true;
    char program[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (len <= 0)
        return false;
    program[len] = '\0';
    for (char *slash = strrchr(program, '/'); slash != NULL; slash = strrchr(program, '/')) {
        *slash = '\0';
        if (snprintf(out, size, "%s/%s", program, relative) < (int)size && access(out, R_OK) == 0)
            return true;
    }
    return false;
}

bool decisions_load(const char *path)
{
    json_object_put(decisions);
    decisions = json_object_from_file(path);
    return json_object_is_type(json_get(decisions, "decisions"), json_type_array);
}

json_object *decision_find(const char *id)
{
    json_object *list = json_get(decisions, "decisions");
    if (!json_object_is_type(list, json_type_array))
        return NULL;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *entry = json_object_array_get_idx(list, i);
        if (strcmp(json_text(entry, "id", ""), id) == 0)
            return entry;
    }
    return NULL;
}

void decisions_free(void)
{
    json_object_put(decisions);
    decisions = NULL;
}
