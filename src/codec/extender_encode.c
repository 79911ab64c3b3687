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

/* Does name i + 1 follow in the text after a comma and nothing else? Then there is no room for more
 * than it and two quotes. */
static bool follows(const struct candidates_call *call, uint32_t i)
{
    const struct str *name = &call->nodes[i];
    return call->quoted && call->nodes[i + 1].data == name->data + name->len + 3;
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
        uint32_t first = i;
        while (i + 1 < call->node_count && reasons[i + 1] == REASON_FITS && follows(call, i))
            i++;
        write_names(call, first, i, separator, out);
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

/* What stands behind a failed node's name, by reason: a colon and the sentence; data NULL for reasons
 * that are not written. */
struct sentences {
    struct strbuf texts;
    struct str of[REASON_MAX];
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
        }
        end[reason] = ret->texts.len;
    }
    for (enum reason reason = 0; reason < REASON_MAX; reason++) {
        size_t begin = reason > 0 ? end[reason - 1] : 0;
        if (end[reason] > begin)
            ret->of[reason] = (struct str){ret->texts.data + begin, end[reason] - begin};
    }
}

static void write_failed_names(const struct candidates_call *call,
                               const struct filter_answer *answer,
                               const struct sentences *sentences, struct strbuf *out)
{
    struct str separator = STR("");
    for (uint32_t i = 0; i < call->node_count; i++) {
        struct str sentence = sentences->of[answer->reasons[i]];
        if (sentence.data == NULL)
            continue;
        write_name(call, i, separator, sentence, out);
        separator = STR(",");
    }
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

/* What stands behind a name that got this score. */
static struct str score_text(int64_t score)
{
    static const char *const texts[] = {
        ",\"Score\":0}", ",\"Score\":1}", ",\"Score\":2}", ",\"Score\":3}", ",\"Score\":4}",  ",\"Score\":5}",
        ",\"Score\":6}", ",\"Score\":7}", ",\"Score\":8}", ",\"Score\":9}", ",\"Score\":10}",
    };
    assert(score >= 0 && score < (int64_t)(sizeof texts / sizeof *texts));
    return str_from(texts[score]);
}

void extender_encode_prioritize(const struct candidates_call *call,
                                const struct prioritize_answer *answer, struct strbuf *out)
{
    struct str separator = STR("{\"Host\":");
    expect_names(call, call->node_count, 24, out);
    strbuf_putc(out, '[');
    for (uint32_t i = 0; i < call->node_count; i++) {
        if (answer->repeated != NULL && answer->repeated[i])
            continue;
        write_name(call, i, separator, score_text(answer->scores[i]), out);
        separator = STR(",{\"Host\":");
    }
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
