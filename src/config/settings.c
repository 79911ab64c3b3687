/* SPDX-License-Identifier: Apache-2.0 */
#include "config/settings.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"

#include <yaml.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The configuration is two levels deep; this much is read to name what is wrong below them. */
#define DEPTH_MAX        16
#define PROBLEM_TEXT_MAX 512

struct settings {
    yaml_parser_t parser;
    struct str text;
    const char *file;
    struct strbuf *problems;
    uint32_t problem_count;

    struct arena mem;            /* the paths */
    struct map seen;             /* path -> line */
    struct str path;             /* of the innermost open mapping, "" at the root */
    struct str outer[DEPTH_MAX]; /* paths of the mappings around it */
    uint32_t depth;              /* open mappings; 0 = before or behind the document */
    bool started;                /* the root mapping was opened */
    bool in_list;                /* a list was given out last and its end was not read yet */
    bool ended;
    bool complete;
    bool failed;
};

static struct place place_of(yaml_mark_t mark)
{
    return (struct place){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

void settings_problem(struct settings *settings, struct place at, const char *format, ...)
{
    char text[PROBLEM_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?'; /* a value cannot begin a line of its own */
    }
    strbuf_printf(settings->problems, "%s:%u:%u: %s\n", settings->file, at.line, at.column, text);
    settings->problem_count++;
}

/* Nothing more can be read. */
static bool stop(struct settings *settings)
{
    settings->ended = true;
    return false;
}

static bool stop_for_memory(struct settings *settings)
{
    settings->failed = true;
    return stop(settings);
}

/* Characters of UTF-8 are counted, as libyaml does. */
static struct place place_of_byte(struct str text, size_t offset)
{
    struct place at = {1, 1};

    for (size_t i = 0; i < offset && i < text.len; i++) {
        if (text.data[i] == '\n')
            at = (struct place){at.line + 1, 1};
        else if (((unsigned char)text.data[i] & 0xc0) != 0x80)
            at.column++;
    }
    return at;
}

static bool stop_at_syntax_error(struct settings *settings)
{
    const yaml_parser_t *parser = &settings->parser;
    struct place at = place_of(parser->problem_mark);

    if (parser->error == YAML_MEMORY_ERROR)
        return stop_for_memory(settings);
    /* What decodes the characters runs ahead of the marks and knows its byte only. */
    if (parser->error == YAML_READER_ERROR)
        at = place_of_byte(settings->text, parser->problem_offset);
    settings_problem(settings, at, "not YAML: %s%s%s", parser->problem,
                     parser->context != NULL ? " " : "",
                     parser->context != NULL ? parser->context : "");
    return stop(settings);
}

static bool event_anchored(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor != NULL;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor != NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor != NULL;
    default:
        return false;
    }
}

/* libyaml hides the bare tag "!" of a scalar, but then calls a quoted scalar implicitly plain. */
static bool event_tagged(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.tag != NULL ||
               (event->data.scalar.plain_implicit &&
                event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE);
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag != NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag != NULL;
    default:
        return false;
    }
}

/* The next event, its anchor, alias or tag reported. The caller deletes it. */
static bool next_event(struct settings *settings, yaml_event_t *event)
{
    if (settings->ended)
        return false;
    if (!yaml_parser_parse(&settings->parser, event))
        return stop_at_syntax_error(settings);
    if (event_anchored(event))
        settings_problem(settings, place_of(event->start_mark), "anchors are not used here");
    if (event->type == YAML_ALIAS_EVENT)
        settings_problem(settings, place_of(event->start_mark),
                         "aliases are not used here; write the value again");
    if (event_tagged(event))
        settings_problem(settings, place_of(event->start_mark), "tags are not used here");
    return true;
}

static bool opens(const yaml_event_t *event)
{
    return event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
}

static bool closes(const yaml_event_t *event)
{
    return event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;
}

/* Pass over events until `open` mappings and lists are closed. */
static void skip_open(struct settings *settings, uint32_t open)
{
    while (open > 0) {
        yaml_event_t event;

        if (!next_event(settings, &event))
            return;
        open += opens(&event);
        open -= closes(&event);
        if (settings->depth + open > DEPTH_MAX) {
            settings_problem(settings, place_of(event.start_mark),
                             "nested more than %d levels deep", DEPTH_MAX);
            stop(settings);
        }
        yaml_event_delete(&event);
    }
}

static struct str join_path(struct settings *settings, struct str key)
{
    struct str outer = settings->path;
    size_t dot = outer.len > 0;
    char *path = arena_alloc(&settings->mem, outer.len + dot + key.len + 1, 1);

    if (path == NULL)
        return (struct str){NULL, 0};
    memcpy(path, outer.data, outer.len);
    if (dot)
        path[outer.len] = '.';
    memcpy(path + outer.len + dot, key.data, key.len);
    return (struct str){path, outer.len + dot + key.len};
}

static bool enter(struct settings *settings, struct str path, struct place at)
{
    if (settings->depth == DEPTH_MAX) {
        settings_problem(settings, at, "nested more than %d levels deep", DEPTH_MAX);
        return stop(settings);
    }
    settings->outer[settings->depth++] = settings->path;
    settings->path = path;
    return true;
}

static void leave(struct settings *settings)
{
    settings->path = settings->outer[--settings->depth];
}

/* Behind the document there must be nothing. */
static bool finish(struct settings *settings)
{
    yaml_event_t event;

    while (next_event(settings, &event)) {
        if (event.type == YAML_DOCUMENT_START_EVENT) {
            settings_problem(settings, place_of(event.start_mark),
                             "a second document begins here; a configuration is one document");
            stop(settings);
        }
        if (event.type == YAML_STREAM_END_EVENT) {
            settings->complete = true;
            stop(settings);
        }
        yaml_event_delete(&event);
    }
    return false;
}

/* Go to the first key. */
static bool start(struct settings *settings)
{
    yaml_event_t event;
    yaml_event_type_t type;
    struct place at;
    bool empty;

    do {
        if (!next_event(settings, &event))
            return false;
        type = event.type;
        at = place_of(event.start_mark);
        empty = type == YAML_SCALAR_EVENT && event.data.scalar.length == 0;
        yaml_event_delete(&event);
    } while (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT);

    settings->started = true;
    if (type == YAML_MAPPING_START_EVENT)
        return enter(settings, STR(""), at);
    if (type == YAML_STREAM_END_EVENT) {
        settings->complete = true;
        return stop(settings);
    }
    if (!empty)
        settings_problem(settings, at, "a configuration is a mapping of keys to values");
    if (type == YAML_SEQUENCE_START_EVENT)
        skip_open(settings, 1);
    return finish(settings);
}

/* Fill in a scalar. False when memory ends. */
static bool take_scalar(struct settings *settings, const yaml_event_t *event, struct setting *ret)
{
    ret->shape = SETTING_SCALAR;
    ret->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    ret->value =
        arena_str(&settings->mem, (struct str){(const char *)event->data.scalar.value,
                                               event->data.scalar.length});
    return ret->value.data != NULL || stop_for_memory(settings);
}

/* Read the value of a key. False when it cannot be given out (and, if it was opened, is passed
 * over). */
static bool take_value(struct settings *settings, struct setting *ret)
{
    yaml_event_t event;
    bool good = false;

    if (!next_event(settings, &event))
        return false;
    ret->value_at = place_of(event.start_mark);
    if (event.type == YAML_SCALAR_EVENT) {
        good = take_scalar(settings, &event, ret);
    } else if (event.type == YAML_MAPPING_START_EVENT) {
        ret->shape = SETTING_MAPPING;
        good = enter(settings, ret->path, ret->value_at);
    } else if (event.type == YAML_SEQUENCE_START_EVENT) {
        ret->shape = SETTING_LIST;
        settings->in_list = true;
        good = true;
    }
    yaml_event_delete(&event);
    return good;
}

/* Read over the value of a key that is no good. */
static void drop_value(struct settings *settings)
{
    struct setting unused = {.path = STR("")};

    if (take_value(settings, &unused) && unused.shape != SETTING_SCALAR)
        settings_skip(settings);
}

/* Check a key. False when it cannot be given out. */
static bool take_key(struct settings *settings, const yaml_event_t *event, struct setting *ret)
{
    struct str key = {(const char *)event->data.scalar.value, event->data.scalar.length};
    uint32_t line;

    ret->key_at = place_of(event->start_mark);
    if (key.len == 0 || memchr(key.data, '.', key.len) != NULL) {
        settings_problem(settings, ret->key_at,
                         key.len == 0
                             ? "a key is empty"
                             : "%.*s: unknown key; a level of its own is written as a mapping, "
                               "not with a dot",
                         STR_ARG(key));
        return false;
    }
    ret->path = join_path(settings, key);
    if (ret->path.data == NULL)
        return stop_for_memory(settings);
    line = map_get(&settings->seen, ret->path);
    if (line != MAP_NONE) {
        settings_problem(settings, ret->key_at, "%.*s: already given on line %u",
                         STR_ARG(ret->path), line);
        return false;
    }
    if (map_put(&settings->seen, ret->path, ret->key_at.line) < 0)
        return stop_for_memory(settings);
    return true;
}

bool settings_next(struct settings *settings, struct setting *ret)
{
    yaml_event_t event;

    if (!settings->started && !start(settings))
        return false;
    if (settings->in_list)
        settings_skip(settings);
    while (next_event(settings, &event)) {
        struct setting setting = {.path = STR("")};
        bool good = false;

        if (event.type == YAML_MAPPING_END_EVENT) {
            leave(settings);
        } else if (event.type == YAML_SCALAR_EVENT) {
            good = take_key(settings, &event, &setting);
            if (!good)
                drop_value(settings);
        } else {
            settings_problem(settings, place_of(event.start_mark), "a key must be a plain word");
            if (opens(&event))
                skip_open(settings, 1);
            drop_value(settings);
        }
        yaml_event_delete(&event);
        if (settings->depth == 0)
            return finish(settings);
        if (good && take_value(settings, &setting)) {
            *ret = setting;
            return true;
        }
    }
    return false;
}

bool settings_item(struct settings *settings, struct setting *ret)
{
    yaml_event_t event;
    bool good = false;

    if (!settings->in_list || !next_event(settings, &event))
        return false;
    ret->value_at = place_of(event.start_mark);
    if (event.type == YAML_SCALAR_EVENT) {
        good = take_scalar(settings, &event, ret);
    } else if (opens(&event)) {
        ret->shape = event.type == YAML_MAPPING_START_EVENT ? SETTING_MAPPING : SETTING_LIST;
        skip_open(settings, 1);
        good = true;
    } else if (event.type == YAML_ALIAS_EVENT) { /* reported, and of no shape */
        yaml_event_delete(&event);
        return settings_item(settings, ret);
    } else {
        settings->in_list = false;
    }
    yaml_event_delete(&event);
    return good;
}

void settings_skip(struct settings *settings)
{
    skip_open(settings, 1);
    if (settings->in_list)
        settings->in_list = false;
    else
        leave(settings);
}

uint32_t settings_problem_count(const struct settings *settings)
{
    return settings->problem_count;
}

bool settings_complete(const struct settings *settings)
{
    return settings->complete;
}

bool settings_failed(const struct settings *settings)
{
    return settings->failed || settings->problems->failed;
}

struct settings *settings_open(struct str text, const char *file, struct strbuf *problems)
{
    struct settings *settings = mem_calloc(1, sizeof *settings);

    if (settings == NULL)
        return NULL;
    if (!yaml_parser_initialize(&settings->parser)) {
        mem_free(settings);
        return NULL;
    }
    settings->text = text.data != NULL ? text : STR(""); /* libyaml asserts that it gets one */
    settings->file = file;
    settings->problems = problems;
    settings->path = STR("");
    arena_init(&settings->mem, 0);
    map_init(&settings->seen);
    yaml_parser_set_encoding(&settings->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&settings->parser, (const unsigned char *)settings->text.data,
                                 settings->text.len);
    return settings;
}

void settings_close(struct settings *settings)
{
    if (settings == NULL)
        return;
    yaml_parser_delete(&settings->parser);
    map_done(&settings->seen);
    arena_done(&settings->mem);
    mem_free(settings);
}
