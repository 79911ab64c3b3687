/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>

/*
 * A fuzz target as a plain program: fuzz_NAME [FILE...] runs each file, without any those of
 * tests/fuzz/corpus/NAME, and says in TAP that they were survived.
 */

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    size_t size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? size : 1); /* of exactly the size: the sanitizer sees one byte more */
    if (data == NULL || fread(data, 1, size, file) != size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int run_corpus(const char *dir)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, visible, alphasort);
    if (count <= 0) {
        fprintf(stderr, "%s: %s\n", dir, count < 0 ? strerror(errno) : "no files");
        return 1;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        fflush(stdout);
        run_file(path);
        printf("ok %d - %s\n", i + 1, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = strncmp(program_invocation_short_name, "fuzz_", 5) == 0
                           ? program_invocation_short_name + 5
                           : program_invocation_short_name;
    char dir[256];
    snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s", name);
    if (argc == 1)
        return run_corpus(dir);
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    return 0;
}
