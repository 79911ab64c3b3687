/* SPDX-License-Identifier: Apache-2.0 */
/* conformance [-v] [--decisions FILE] FILE-OR-DIR...: run vector files against the code;
 * docs/conformance.md says what is in them and what the counts mean. */
#include "hami.h"
#include "runner.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OWN_DECISIONS "tests/data/vectors/decisions.json"

enum outcome { PASSED, FAILED, UNSUPPORTED, UNDECIDED, OUTCOME_MAX };

/* Counts by name: of an operation, or of a need. */
struct tally {
    char name[64];
    unsigned count[OUTCOME_MAX];
};

struct tallies {
    struct tally *item;
    size_t count;
};

static struct tallies by_op, by_need;
static unsigned total[OUTCOME_MAX];
static unsigned broken_files, skipped_files;
static bool verbose;

/* ---- reports ---- */

void vector_unsupported(struct vector *v, const char *format, ...)
{
    if (v->unsupported[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(v->unsupported, sizeof(v->unsupported), format, args);
    va_end(args);
}

bool vector_supported(const struct vector *v)
{
    return v->unsupported[0] == '\0';
}

void vector_fail(struct vector *v, const char *field, const char *expected, const char *got)
{
    v->failures++;
    printf("%s %s %s %s: expected %s, got %s\n", v->file, v->id, v->op, field, expected, got);
}

bool fields_known(struct vector *v, const char *where, json_object *object, const char *known)
{
    if (object == NULL)
        return true;
    if (!json_object_is_type(object, json_type_object)) {
        vector_unsupported(v, "%s is no object", where);
        return false;
    }
    json_object_object_foreach(object, key, value) {
        size_t len = strlen(key);
        const char *word = known;
        for (; word != NULL; word = strchr(word, ' ')) {
            word += strspn(word, " ");
            const char *name = word + (*word == '?');
            if (strncmp(name, key, len) == 0 && (name[len] == ' ' || name[len] == '\0'))
                break;
        }
        if (word == NULL)
            vector_unsupported(v, "unknown field %s.%s", where, key);
        else if (*word == '?' && !json_says_nothing(value))
            vector_unsupported(v, "field %s.%s belongs to a later feature", where, key);
    }
    return vector_supported(v);
}

static struct tally *tally_of(struct tallies *tallies, const char *name)
{
    for (size_t i = 0; i < tallies->count; i++)
        if (strcmp(tallies->item[i].name, name) == 0)
            return &tallies->item[i];
    struct tally *grown = realloc(tallies->item, (tallies->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        fputs("conformance: out of memory\n", stderr);
        exit(2);
    }
    tallies->item = grown;
    struct tally *added = &grown[tallies->count++];
    *added = (struct tally){{0}, {0}};
    (void)snprintf(added->name, sizeof(added->name), "%s", name);
    return added;
}

static void count(const char *op, enum outcome outcome)
{
    tally_of(&by_op, op)->count[outcome]++;
    total[outcome]++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tally *)a)->name, ((const struct tally *)b)->name);
}

static void print_summary(void)
{
    static const char *const columns[] = {"passed", "failed", "not supported", "undecided"};
    if (by_op.count > 0)
        qsort(by_op.item, by_op.count, sizeof(by_op.item[0]), by_name);
    if (by_need.count > 0)
        qsort(by_need.item, by_need.count, sizeof(by_need.item[0]), by_name);
    printf("%-32s", "operation");
    for (size_t i = 0; i < OUTCOME_MAX; i++)
        printf("  %13s", columns[i]);
    putchar('\n');
    for (size_t i = 0; i < by_op.count; i++) {
        printf("%-32s", by_op.item[i].name);
        for (size_t j = 0; j < OUTCOME_MAX; j++)
            printf("  %13u", by_op.item[i].count[j]);
        putchar('\n');
    }
    if (by_need.count > 0)
        printf("not supported, by what a record needs (one may need several):");
    for (size_t i = 0; i < by_need.count; i++)
        printf("%s %s %u", i > 0 ? "," : "", by_need.item[i].name,
               by_need.item[i].count[UNSUPPORTED]);
    if (by_need.count > 0)
        putchar('\n');
    if (skipped_files > 0)
        printf("%u other JSON files passed over\n", skipped_files);
    if (broken_files > 0)
        printf("%u files cannot be read\n", broken_files);
    printf("%u not supported, %u undecided hazards\n", total[UNSUPPORTED], total[UNDECIDED]);
    printf("%u passed, %u failed\n", total[PASSED], total[FAILED] + broken_files);
}

/* ---- one record ---- */

static const struct op *find_op(const char *name)
{
    const struct op *const tables[] = {request_ops,    node_ops,       state_ops,
                                       annotation_ops, hami_value_ops, hami_place_ops};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct op *op = tables[i]; op->name != NULL; op++)
            if (strcmp(op->name, name) == 0)
                return op;
    return NULL;
}

static bool has_needs(json_object *needs)
{
    if (json_says_nothing(needs))
        return false;
    if (!json_object_is_type(needs, json_type_array)) {
        tally_of(&by_need, "(unreadable)")->count[UNSUPPORTED]++;
        return true;
    }
    for (size_t i = 0; i < json_object_array_length(needs); i++)
        tally_of(&by_need, json_object_get_string(json_object_array_get_idx(needs, i)))
            ->count[UNSUPPORTED]++;
    return true;
}

static enum outcome answer(struct vector *v)
{
    const struct op *op = find_op(v->op);
    if (op == NULL) {
        vector_unsupported(v, "unknown op %s", v->op);
        return UNSUPPORTED;
    }
    if (!fields_known(v, "given", v->given, op->given))
        return UNSUPPORTED;
    json_object *got = json_new_object();
    arena_init(&v->mem, 0);
    op->run(v, got);
    if (vector_supported(v) && v->failures == 0)
        compare_answer(v, op->expect, got);
    arena_done(&v->mem);
    json_object_put(got);
    if (v->failures > 0)
        return FAILED;
    return vector_supported(v) ? PASSED : UNSUPPORTED;
}

static void note_unsupported(const struct vector *v)
{
    if (verbose)
        printf("%s %s %s: not supported (%s)\n", v->file, v->id, v->op, v->unsupported);
}

static void run_record(const char *file, json_object *record)
{
    struct vector v = {
        .file = file,
        .id = json_text(record, "id", "(no id)"),
        .op = json_text(record, "op", "(no op)"),
        .given = json_get(record, "given"),
        .expect = json_get(record, "expect"),
    };
    bool hazard = json_get(record, "hazard") != NULL;
    json_object *decision = decision_find(v.id);
    if (decision != NULL && hazard)
        v.expect = json_get(decision, "expect");
    if (decision != NULL && !hazard) {
        vector_fail(&v, "decision", "a hazard", "a decision on a record without one");
        count(v.op, FAILED);
        return;
    }
    if (hazard && decision == NULL) {
        if (verbose)
            printf("%s %s %s: undecided hazard (%s)\n", file, v.id, v.op,
                   json_text(record, "hazard", ""));
        count(v.op, UNDECIDED);
        return;
    }
    enum outcome outcome = UNSUPPORTED;
    if (has_needs(json_get(record, "needs")))
        vector_unsupported(&v, "needs %s", json_compact(json_get(record, "needs")));
    else if (fields_known(&v, "record", record,
                          "id op needs case source given expect notes note hazard model_check"))
        outcome = answer(&v);
    if (outcome == UNSUPPORTED)
        note_unsupported(&v);
    count(v.op, outcome);
}

/* HAMi's vectors have a kind instead of an operation, and no list of what they need. A decision
 * holds the vector to what we do instead. */
static void run_vector(const char *file, json_object *vector)
{
    struct vector v = {
        .file = file,
        .id = json_text(vector, "id", "(no id)"),
        .given = json_get(vector, "given"),
        .expect = json_get(vector, "expect"),
    };
    char name[64];
    (void)snprintf(name, sizeof(name), "hami/%s", json_text(vector, "kind", "(no kind)"));
    v.op = name;
    json_object *decision = decision_find(v.id);
    const char *feature = hami_out_of_scope(vector);
    enum outcome outcome = UNSUPPORTED;
    if (decision != NULL)
        v.expect = json_get(decision, "expect");
    if (feature != NULL)
        vector_unsupported(&v, "needs %s", feature);
    else if (fields_known(&v, "vector", vector, "id kind origin derived given expect note"))
        outcome = answer(&v);
    if (outcome == UNSUPPORTED)
        note_unsupported(&v);
    count(name, outcome);
}

/* ---- files ---- */

static void run_list(const char *file, json_object *list,
                     void (*run)(const char *file, json_object *item))
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        run(file, json_object_array_get_idx(list, i));
}

/* `named`: given on the command line, hence meant to be a vector file. */
static void run_file(const char *path, bool named)
{
    json_object *root = json_object_from_file(path);
    if (root == NULL) {
        printf("%s: cannot be read: %s", path, json_util_get_last_err());
        broken_files++;
        return;
    }
    if (json_object_is_type(json_get(root, "records"), json_type_array)) {
        run_list(path, json_get(root, "records"), run_record);
    } else if (json_object_is_type(json_get(root, "vectors"), json_type_array)) {
        hami_vectors = json_get(root, "vectors");
        run_list(path, hami_vectors, run_vector);
    } else if (json_get(root, "fixtures") == NULL && json_get(root, "decisions") == NULL) {
        if (named)
            printf("%s: no vector file: neither records nor vectors\n", path);
        broken_files += named;
        skipped_files += !named;
    }
    json_object_put(root);
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void run_path(const char *path, bool named);

static void run_directory(const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, visible, alphasort);
    if (n < 0) {
        printf("%s: %s\n", path, strerror(errno));
        broken_files++;
        return;
    }
    for (int i = 0; i < n; i++) {
        char inner[PATH_MAX];
        if (snprintf(inner, sizeof(inner), "%s/%s", path, entries[i]->d_name) < (int)sizeof(inner))
            run_path(inner, false);
        free(entries[i]);
    }
    free(entries);
}

static void run_path(const char *path, bool named)
{
    struct stat status;
    size_t len = strlen(path);
    if (stat(path, &status) < 0) {
        printf("%s: %s\n", path, strerror(errno));
        broken_files++;
    } else if (S_ISDIR(status.st_mode)) {
        run_directory(path);
    } else if (named || (len > 5 && strcmp(path + len - 5, ".json") == 0)) {
        run_file(path, named);
    }
}

static void load_decisions(const char *path)
{
    char found[PATH_MAX];
    if (path == NULL && tree_path(OWN_DECISIONS, found, sizeof(found)))
        path = found;
    if (path == NULL || decisions_load(path))
        return;
    printf("%s: cannot be read as decisions\n", path);
    broken_files++;
}

static int usage(FILE *out, int status)
{
    fputs("usage: conformance [-v] [--decisions FILE] FILE-OR-DIR...\n"
          "Run conformance vectors. -v names the records that are not supported or undecided.\n"
          "Exit status: 0 nothing failed, 1 a record failed or a file cannot be read, 2 usage.\n",
          out);
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"verbose", no_argument, NULL, 'v'},
        {"decisions", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *decisions = NULL;
    for (int c; (c = getopt_long(argc, argv, "vd:h", options, NULL)) != -1;) {
        if (c == 'v')
            verbose = true;
        else if (c == 'd')
            decisions = optarg;
        else
            return usage(c == 'h' ? stdout : stderr, c == 'h' ? 0 : 2);
    }
    if (optind == argc)
        return usage(stderr, 2);

    load_decisions(decisions);
    for (int i = optind; i < argc; i++)
        run_path(argv[i], true);
    if (total[PASSED] + total[FAILED] + total[UNSUPPORTED] + total[UNDECIDED] == 0) {
        printf("no vectors found\n");
        broken_files++;
    }
    print_summary();

    fixtures_free();
    decisions_free();
    free(by_op.item);
    free(by_need.item);
    return total[FAILED] + broken_files > 0 ? 1 : 0;
}
