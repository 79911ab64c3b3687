/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/extender.h"

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
        size_t length = reader_utf8_length(at, end);
        if (length > 0)
            strbuf_add(&clean, at, length);
        else
            strbuf_puts(&clean, replacement);
        at += length > 0 ? length : 1;
    }
    if (clean.failed)
        out->failed = true;
    strbuf_json_string(out, (struct str){clean.data, clean.len});
    strbuf_done(&clean);
}

/* kube-scheduler reads `Nodes` only when NodeNames is null, and NodeNames only when it is not. */
static void write_fitting_names(const struct candidates_call *call,
                                const struct filter_answer *answer, struct strbuf *out)
{
    const char *separator = "";
    strbuf_puts(out, "{\"Nodes\":null,\"NodeNames\":[");
    for (uint32_t i = 0; i < call->node_count; i++) {
        if (answer->reasons[i] != REASON_FITS)
            continue;
        strbuf_puts(out, separator);
        strbuf_json_string(out, call->nodes[i]);
        separator = ",";
    }
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

/* The sentences of a map of failures as JSON, each written once. */
struct sentences {
    struct strbuf of[REASON_MAX];
};

static struct str sentence_of(struct sentences *sentences, const struct filter_answer *answer,
                              enum reason reason, struct strbuf *out)
{
    struct strbuf *text = &sentences->of[reason];
    bool own_text = reason == REASON_INVALID && answer->invalid_text != NULL;
    if (text->len == 0)
        write_sentence(own_text ? answer->invalid_text : reason_text(reason), text);
    out->failed |= text->failed;
    return (struct str){text->data, text->len};
}

/* The map of nodes that failed with this verdict to their texts. */
static void write_failed(const struct candidates_call *call, const struct filter_answer *answer,
                         enum verdict verdict, struct sentences *sentences, struct strbuf *out)
{
    const char *separator = "";
    strbuf_putc(out, '{');
    for (uint32_t i = 0; answer->fit_count == 0 && i < call->node_count; i++) {
        enum reason reason = answer->reasons[i];
        if (reason == REASON_DUPLICATE || reason_verdict(reason) != verdict)
            continue;
        strbuf_puts(out, separator);
        strbuf_json_string(out, call->nodes[i]);
        strbuf_putc(out, ':');
        strbuf_add_str(out, sentence_of(sentences, answer, reason, out));
        separator = ",";
    }
    strbuf_putc(out, '}');
}

void extender_encode_filter(const struct candidates_call *call, const struct filter_answer *answer,
                            struct strbuf *out)
{
    struct sentences sentences = {0};
    if (call->full_nodes)
        write_fitting_nodes(call, answer, out);
    else
        write_fitting_names(call, answer, out);
    strbuf_puts(out, ",\"FailedNodes\":");
    write_failed(call, answer, VERDICT_NOT_NOW, &sentences, out);
    strbuf_puts(out, ",\"FailedAndUnresolvableNodes\":");
    write_failed(call, answer, VERDICT_NEVER, &sentences, out);
    strbuf_puts(out, ",\"Error\":\"\"}");
    for (enum reason reason = 0; reason < REASON_MAX; reason++)
        strbuf_done(&sentences.of[reason]);
}

void extender_encode_filter_error(const char *text, struct strbuf *out)
{
    strbuf_puts(out, "{\"Nodes\":null,\"NodeNames\":null,\"FailedNodes\":null,"
                     "\"FailedAndUnresolvableNodes\":null,\"Error\":");
    write_sentence(text, out);
    strbuf_putc(out, '}');
}

void extender_encode_prioritize(const struct candidates_call *call,
                                const struct prioritize_answer *answer, struct strbuf *out)
{
    const char *separator = "{\"Host\":";
    strbuf_putc(out, '[');
    for (uint32_t i = 0; i < call->node_count; i++) {
        if (answer->repeated != NULL && answer->repeated[i])
            continue;
        strbuf_puts(out, separator);
        strbuf_json_string(out, call->nodes[i]);
        strbuf_puts(out, ",\"Score\":");
        strbuf_int(out, answer->scores[i]);
        strbuf_putc(out, '}');
        separator = ",{\"Host\":";
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
