/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/extender.h"

#include <assert.h>

#include "base/word.h"
#include "codec/reader.h"

/* A sentence for people; it may have been cut inside a character, and what is no UTF-8 must not
 * leave. */
static void write_sentence(const char *text, struct strbuf *out)
{
    static const char replacement[] = "\xef\xbf\xbd";
    struct strbuf clean;
    strbuf_init(&clean);
    const char *at = text != NULL ? text : "";
    const char *end = at + strlen(at);
    while (at < end) {
        const char *start = at;
        size_t length = 1;
        while (at < end && (length = reader_utf8_length(at, end)) > 0)
            at += length;
        strbuf_add(&clean, start, (size_t)(at - start));
        if (length == 0) {
            strbuf_puts(&clean, replacement);
            at++;
        }
    }
    if (clean.failed)
        out->failed = true;
    strbuf_json_string(out, (struct str){clean.data, clean.len});
    strbuf_done(&clean);
}

/* ---- many names ---- */

/* Make room for `count` of the call's names, each with `beside` bytes more: about as much as they will
 * need, so that the buffer need not grow with them. */
static void expect_names(const struct candidates_call *call, uint32_t count, size_t beside,
                         struct strbuf *out)
{
    if (!call->quoted || call->node_count == 0)
        return;
    const struct str *first = &call->nodes[0], *last = &call->nodes[call->node_count - 1];
    size_t each = (size_t)(last->data + last->len - first->data) / call->node_count;
    (void)strbuf_reserve(out, (each + beside) * count + 256);
}

static inline char *put(char *at, struct str text)
{
    word_copy_text(at, text.data, text.len);
    return at + text.len;
}

/* `before`, the name with its quotes, `after`. */
static inline void write_name(const struct candidates_call *call, uint32_t i, struct str before,
                       struct str after, struct strbuf *out)
{
    struct str name = call->nodes[i];
    if (!call->quoted) {
        strbuf_add_str(out, before);
        strbuf_json_string(out, name);
        strbuf_add_str(out, after);
        return;
    }
    name = (struct str){name.data - 1, name.len + 2};
    char *at = strbuf_room(out, before.len + name.len + after.len);
    if (at != NULL)
        strbuf_written(out, put(put(put(at, before), name), after));
}

/* ---- a list of names, each with a text behind it ---- */

/* Copied this long whatever their length, short texts need no branches. */
#define LOOSE ((size_t)2 * LANE_BYTES)

/* What may stand behind a name, up to the next one; data NULL: the name is left out. LOOSE bytes can be
 * read. */
struct tail {
    const char *data;
    size_t len;
};

struct listing {
    const struct candidates_call *call;
    const char *loose_end; /* LOOSE bytes can be read from any name's quote that stands before it */
    struct strbuf *out;
};

static struct listing listing_begin(const struct candidates_call *call, struct strbuf *out)
{
    struct listing listing = {.call = call, .out = out};
    if (call->quoted && call->node_count > 0) {
        const struct str *first = &call->nodes[0], *last = &call->nodes[call->node_count - 1];
        const char *end = last->data + last->len + 1;
        if ((size_t)(end - first->data) > LOOSE)
            listing.loose_end = end - LOOSE;
    }
    return listing;
}

static inline void copy_loosely(char *to, const char *from)
{
    char begin[LANE_BYTES], end[LANE_BYTES];
    memcpy(begin, from, LANE_BYTES);
    memcpy(end, from + LANE_BYTES, LANE_BYTES);
    memcpy(to, begin, LANE_BYTES);
    memcpy(to + LANE_BYTES, end, LANE_BYTES);
}

static inline void list_name(const struct listing *listing, uint32_t i, const struct tail *tail)
{
    struct str name = listing->call->nodes[i];
    char *at = NULL;
    if (listing->loose_end != NULL && name.data <= listing->loose_end && name.len <= LOOSE - 2 &&
        tail->len <= LOOSE)
        at = strbuf_room(listing->out, 2 * LOOSE);
    if (at == NULL) {
        write_name(listing->call, i, STR(""), (struct str){tail->data, tail->len}, listing->out);
        return;
    }
    copy_loosely(at, name.data - 1);
    at += name.len + 2;
    copy_loosely(at, tail->data);
    strbuf_written(listing->out, at + tail->len);
}

/* ---- filter ---- */

/* The last name of those that fit and follow one another in the text from `first` on, with a comma between
 * and nothing else: there is no room for more than it and two quotes. */
static uint32_t last_that_follows(const struct candidates_call *call, const enum reason *reasons,
                                  uint32_t first)
{
    const struct str *nodes = call->nodes;
    uint32_t i = first, end = call->quoted ? call->node_count : 0;
    while (i + 1 < end && reasons[i + 1] == REASON_FITS &&
           nodes[i + 1].data == nodes[i].data + nodes[i].len + 3)
        i++;
    return i;
}

/* The names from `first` to `last`, which stand together if they are several. */
static void write_names(const struct candidates_call *call, uint32_t first, uint32_t last,
                        struct str separator, struct strbuf *out)
{
    if (first == last) {
        write_name(call, first, separator, STR(""), out);
        return;
    }
    const char *begin = call->nodes[first].data - 1;
    const char *end = call->nodes[last].data + call->nodes[last].len + 1;
    strbuf_add_str(out, separator);
    strbuf_add(out, begin, (size_t)(end - begin));
}

static void write_fitting(const struct candidates_call *call, const enum reason *reasons,
                          struct strbuf *out)
{
    struct str separator = STR("");
    for (uint32_t i = 0; i < call->node_count; i++) {
        if (reasons[i] != REASON_FITS)
            continue;
        uint32_t last = last_that_follows(call, reasons, i);
        write_names(call, i, last, separator, out);
        i = last;
        separator = STR(",");
    }
}

/* kube-scheduler reads `Nodes` only when NodeNames is null, and NodeNames only when it is not. */
static void write_fitting_names(const struct candidates_call *call,
                                const struct filter_answer *answer, struct strbuf *out)
{
    expect_names(call, answer->fit_count, 0, out);
    strbuf_puts(out, "{\"Nodes\":null,\"NodeNames\":[");
    write_fitting(call, answer->reasons, out);
    strbuf_putc(out, ']');
}

static void write_fitting_nodes(const struct candidates_call *call,
                                const struct filter_answer *answer, struct strbuf *out)
{
    const char *separator = "";
    strbuf_puts(out, "{\"Nodes\":{\"metadata\":{},\"items\":[");
    for (uint32_t i = 0; i < call->node_count; i++) {
        if (answer->reasons[i] != REASON_FITS)
            continue;
        strbuf_puts(out, separator);
        strbuf_add_str(out, call->node_json[i]);
        separator = ",";
    }
    strbuf_puts(out, "]},\"NodeNames\":null");
}

/* What stands behind a failed node's name: a colon, the sentence and a comma. */
struct sentences {
    struct strbuf texts;
    struct tail of[REASON_MAX];
};

static bool has_verdict(enum reason reason, enum verdict verdict)
{
    return reason != REASON_DUPLICATE && reason != REASON_LEFT_OUT &&
           reason_verdict(reason) == verdict;
}

static void make_sentences(const struct filter_answer *answer, enum verdict verdict,
                           struct sentences *ret)
{
    size_t end[REASON_MAX];
    *ret = (struct sentences){0};
    for (enum reason reason = 0; reason < REASON_MAX; reason++) {
        bool own_text = reason == REASON_INVALID && answer->invalid_text != NULL;
        if (has_verdict(reason, verdict)) {
            strbuf_putc(&ret->texts, ':');
            write_sentence(own_text ? answer->invalid_text : reason_text(reason), &ret->texts);
            strbuf_putc(&ret->texts, ',');
        }
        end[reason] = ret->texts.len;
    }
    if (!strbuf_reserve(&ret->texts, LOOSE))
        return;
    for (enum reason reason = 0; reason < REASON_MAX; reason++) {
        size_t begin = reason > 0 ? end[reason - 1] : 0;
        if (end[reason] > begin)
            ret->of[reason] = (struct tail){ret->texts.data + begin, end[reason] - begin};
    }
}

static void write_failed_names(const struct candidates_call *call,
                               const struct filter_answer *answer,
                               const struct sentences *sentences, struct strbuf *out)
{
    struct listing listing = listing_begin(call, out);
    size_t before = out->len;
    for (uint32_t i = 0; i < call->node_count; i++) {
        const struct tail *sentence = &sentences->of[answer->reasons[i]];
        if (sentence->data != NULL)
            list_name(&listing, i, sentence);
    }
    if (out->len > before)
        strbuf_cut(out, 1);
}

/* The map of nodes that failed with this verdict to their texts. */
static void write_failed(const struct candidates_call *call, const struct filter_answer *answer,
                         enum verdict verdict, struct strbuf *out)
{
    strbuf_putc(out, '{');
    if (answer->fit_count == 0 && call->node_count > 0) {
        struct sentences sentences;
        make_sentences(answer, verdict, &sentences);
        write_failed_names(call, answer, &sentences, out);
        out->failed |= sentences.texts.failed;
        strbuf_done(&sentences.texts);
    }
    strbuf_putc(out, '}');
}

void extender_encode_filter(const struct candidates_call *call, const struct filter_answer *answer,
                            struct strbuf *out)
{
    if (answer->fit_count == 0)
        expect_names(call, call->node_count, 32, out);
    if (call->full_nodes)
        write_fitting_nodes(call, answer, out);
    else
        write_fitting_names(call, answer, out);
    strbuf_puts(out, ",\"FailedNodes\":");
    write_failed(call, answer, VERDICT_NOT_NOW, out);
    strbuf_puts(out, ",\"FailedAndUnresolvableNodes\":");
    write_failed(call, answer, VERDICT_NEVER, out);
    strbuf_puts(out, ",\"Error\":\"\"}");
}

void extender_encode_filter_error(const char *text, struct strbuf *out)
{
    strbuf_puts(out, "{\"Nodes\":null,\"NodeNames\":null,\"FailedNodes\":null,"
                     "\"FailedAndUnresolvableNodes\":null,\"Error\":");
    write_sentence(text, out);
    strbuf_putc(out, '}');
}

/* ---- prioritize ---- */

#define SCORE_MAX 10
#define NEXT_HOST ",{\"Host\":"
#define SCORED(score) {",\"Score\":" #score "}" NEXT_HOST, sizeof ",\"Score\":" #score "}" NEXT_HOST - 1}

void extender_encode_prioritize(const struct candidates_call *call,
                                const struct prioritize_answer *answer, struct strbuf *out)
{
    static const struct {
        char text[2 * LOOSE];
        size_t len;
    } scored[SCORE_MAX + 1] = {SCORED(0), SCORED(1), SCORED(2), SCORED(3), SCORED(4), SCORED(5),
                               SCORED(6), SCORED(7), SCORED(8), SCORED(9), SCORED(10)};
    struct listing listing = listing_begin(call, out);
    expect_names(call, call->node_count, 24, out);
    strbuf_putc(out, '[');
    size_t before = out->len;
    strbuf_puts(out, &NEXT_HOST[1]);
    for (uint32_t i = 0; i < call->node_count; i++) {
        if (answer->repeated != NULL && answer->repeated[i])
            continue;
        int64_t score = answer->scores[i];
        assert(score >= 0 && score <= SCORE_MAX);
        list_name(&listing, i, &(struct tail){scored[score].text, scored[score].len});
    }
    bool any = out->len > before + sizeof NEXT_HOST - 2;
    strbuf_cut(out, any ? sizeof NEXT_HOST - 1 : sizeof NEXT_HOST - 2);
    strbuf_putc(out, ']');
}

static void write_victims(const struct preempt_victims *victims, struct strbuf *out)
{
    const char *separator = "";
    strbuf_json_string(out, victims->node);
    strbuf_puts(out, ":{\"Pods\":[");
    for (uint32_t i = 0; i < victims->count; i++) {
        strbuf_printf(out, "%s{\"UID\":", separator);
        strbuf_json_string(out, victims->uids[i]);
        strbuf_putc(out, '}');
        separator = ",";
    }
    strbuf_puts(out, "],\"NumPDBViolations\":");
    strbuf_int(out, victims->pdb_violations);
    strbuf_putc(out, '}');
}

void extender_encode_preempt(const struct preempt_call *call, const struct preempt_answer *answer,
                             struct strbuf *out)
{
    const char *separator = "";
    strbuf_puts(out, "{\"NodeNameToMetaVictims\":{");
    for (uint32_t i = 0; i < call->node_count; i++) {
        if (!answer->keep[i] || call->nodes[i].count == 0)
            continue;
        strbuf_puts(out, separator);
        write_victims(&call->nodes[i], out);
        separator = ",";
    }
    strbuf_puts(out, "}}");
}

void extender_encode_bind(const char *error_text, struct strbuf *out)
{
    strbuf_puts(out, "{\"Error\":");
    write_sentence(error_text, out);
    strbuf_putc(out, '}');
}

void extender_encode_problem(const char *text, struct strbuf *out)
{
    strbuf_puts(out, "{\"error\":");
    write_sentence(text, out);
    strbuf_putc(out, '}');
}
