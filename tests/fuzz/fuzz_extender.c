/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "codec/extender.h"
#include "codec/reader.h"

/* Bodies of the four verbs: the first byte says whose, the rest is the body. What is taken is answered, and
 * the answer must be JSON. */

static const struct codec_limits limits = {.nesting = 32, .nodes = 1000, .name_bytes = 253};

static void must_be_refused_well(int rc, const struct error *err)
{
    MUST(rc == -EINVAL || rc == -E2BIG);
    MUST(err->code == rc && err->text[0] != '\0');
}

static void must_be_json(const struct strbuf *out)
{
    struct str value;
    struct error err;
    MUST(!out->failed);
    MUST(reader_check((struct str){out->data, out->len}, 64, &value, &err) == 0);
}

static void must_be_text(struct str text)
{
    for (size_t i = 0; i < text.len;) {
        size_t len = reader_utf8_length(text.data + i, text.data + text.len);
        MUST(len > 0);
        i += len;
    }
}

static void must_be_pod(const struct pod *pod)
{
    MUST(pod->id.uid.len > 0 && pod->id.ns.len > 0 && pod->id.name.len > 0);
    must_be_text(pod->id.uid);
    must_be_text(pod->id.ns);
    must_be_text(pod->id.name);
    MUST(pod->share_count <= CARDS_PER_POD_MAX);
}

/* Names that were found while the body was checked are those that a walk finds, and can be copied with
 * their quotes. */
static void must_be_quoted(struct str body, const struct candidates_call *call, struct arena *mem)
{
    struct reader_field names[] = {{.name = "NodeNames"}};
    struct strbuf written = {0};
    struct str value, name;
    struct error err = {0};
    MUST(reader_check(body, limits.nesting, &value, &err) == 0);
    MUST(reader_object(value, READER_FIELDS(names), &err) == 0);
    struct reader_iter iter = reader_iterate(names[0].value);
    for (uint32_t i = 0; i < call->node_count; i++) {
        struct str noted = call->nodes[i];
        MUST(reader_next_item(&iter, &value) && reader_string(value, mem, &name, &err) == 0);
        MUST(str_eq(noted, name) && noted.data == value.data + 1);
        written.len = 0;
        strbuf_json_string(&written, name);
        MUST(str_eq((struct str){written.data, written.len}, value));
    }
    MUST(!reader_next_item(&iter, &value));
    strbuf_done(&written);
}

/* A roster of some of the call's names, each once, with their place in the call as number. */
static struct roster *make_roster(const struct candidates_call *call, struct arena *mem)
{
    size_t bytes = 0;
    uint32_t count = call->node_count < 40 ? call->node_count : 40;
    for (uint32_t i = 0; i < count; i++)
        bytes += call->nodes[i].len;
    void *block = arena_alloc(mem, roster_block_size(count, bytes), 1);
    MUST(block != NULL);
    struct roster *roster = roster_begin(block, count, 1);
    for (uint32_t i = 0; i < count; i++) {
        bool again = i % 7 == 3 || !roster_takes(call->nodes[i]);
        for (uint32_t j = 0; j < i && !again; j++)
            again = str_eq(call->nodes[i], call->nodes[j]);
        if (!again)
            roster_add(roster, call->nodes[i], i);
    }
    roster_end(roster);
    return roster;
}

/* With a roster the same is read, and what is noted of a name is true. */
static void must_be_read_alike(struct str body, const struct candidates_call *call,
                               struct arena *mem)
{
    struct candidates_call again;
    struct error err = {0};
    const struct roster *roster = make_roster(call, mem);
    MUST(extender_decode_candidates(body, &limits, roster, mem, &again, &err) == 0);
    MUST(again.node_count == call->node_count && again.quoted == call->quoted &&
         again.full_nodes == call->full_nodes);
    for (uint32_t i = 0; i < call->node_count; i++) {
        MUST(str_eq(again.nodes[i], call->nodes[i]));
        if (again.quoted)
            MUST(again.nodes[i].data == call->nodes[i].data);
        if (again.notes.numbers == NULL)
            continue;
        uint32_t number = again.notes.numbers[i];
        MUST(again.notes.hashes[i] == roster_hash(call->nodes[i]));
        MUST(number == ROSTER_NONE || str_eq(call->nodes[number], call->nodes[i]));
    }
}

/* An answer in which two of three candidates fit, or none. */
static void answer_filter(const struct candidates_call *call, bool none, struct arena *mem,
                          struct strbuf *out)
{
    enum reason *reasons = arena_alloc(mem, call->node_count, sizeof *reasons);
    struct filter_answer answer = {.reasons = reasons};
    MUST(reasons != NULL);
    for (uint32_t i = 0; i < call->node_count; i++) {
        bool fits = !none && i % 3 != 1;
        reasons[i] = fits ? REASON_FITS : i % 2 == 0 ? REASON_UNKNOWN_NODE : REASON_NODE_CLOSED;
        answer.fit_count += fits;
    }
    extender_encode_filter(call, &answer, out);
}

static void answer_prioritize(const struct candidates_call *call, struct arena *mem,
                              struct strbuf *out)
{
    int64_t *scores = arena_alloc(mem, call->node_count, sizeof *scores);
    MUST(scores != NULL);
    for (uint32_t i = 0; i < call->node_count; i++)
        scores[i] = i % 11;
    extender_encode_prioritize(call, &(struct prioritize_answer){.scores = scores}, out);
}

static void candidates(struct str body, uint8_t verb, struct arena *mem, struct strbuf *out)
{
    struct candidates_call call;
    struct error err = {0};
    int rc = extender_decode_candidates(body, &limits, NULL, mem, &call, &err);
    if (rc < 0) {
        must_be_refused_well(rc, &err);
        extender_encode_filter_error(err.text, out);
        return;
    }
    must_be_pod(&call.pod);
    MUST(call.node_count <= limits.nodes && call.pod.node_name.len == 0);
    for (uint32_t i = 0; i < call.node_count; i++)
        must_be_text(call.nodes[i]);
    if (call.quoted)
        must_be_quoted(body, &call, mem);
    must_be_read_alike(body, &call, mem);
    if (verb == 0)
        answer_prioritize(&call, mem, out);
    else
        answer_filter(&call, verb == 1, mem, out);
}

static void preempt(struct str body, struct arena *mem, struct strbuf *out)
{
    struct preempt_call call;
    struct error err = {0};
    int rc = extender_decode_preempt(body, &limits, mem, &call, &err);
    if (rc < 0) {
        must_be_refused_well(rc, &err);
        extender_encode_problem(err.text, out);
        return;
    }
    must_be_pod(&call.pod);
    MUST(call.node_count <= limits.nodes);
    bool *keep = arena_alloc(mem, call.node_count, sizeof *keep);
    MUST(keep != NULL);
    for (uint32_t i = 0; i < call.node_count; i++) {
        must_be_text(call.nodes[i].node);
        for (uint32_t j = 0; j < call.nodes[i].count; j++)
            must_be_text(call.nodes[i].uids[j]);
        keep[i] = i % 2 == 0;
    }
    extender_encode_preempt(&call, &(struct preempt_answer){.keep = keep}, out);
}

static void must_be_safe_in_a_url(struct str text)
{
    MUST(text.len > 0);
    for (size_t i = 0; i < text.len; i++)
        MUST(strchr("/?#%\\ ", text.data[i]) == NULL && text.data[i] > ' ');
    MUST(!str_is(text, ".") && !str_is(text, ".."));
}

static void bind(struct str body, struct arena *mem, struct strbuf *out)
{
    struct bind_call call;
    struct error err = {0};
    int rc = extender_decode_bind(body, &limits, mem, &call, &err);
    extender_encode_bind(rc < 0 ? err.text : NULL, out);
    if (rc < 0) {
        must_be_refused_well(rc, &err);
        return;
    }
    must_be_safe_in_a_url(call.pod.ns);
    must_be_safe_in_a_url(call.pod.name);
    must_be_safe_in_a_url(call.pod.uid);
    must_be_safe_in_a_url(call.node);

    /* What we would have sent for it is read back as the same. */
    struct strbuf again = {0};
    struct bind_call copy;
    extender_encode_bind_args(&call.pod, call.node, &again);
    MUST(extender_decode_bind((struct str){again.data, again.len}, &limits, mem, &copy, &err) == 0);
    MUST(str_eq(copy.pod.uid, call.pod.uid) && str_eq(copy.pod.ns, call.pod.ns) &&
         str_eq(copy.pod.name, call.pod.name) && str_eq(copy.node, call.node));
    strbuf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str body = {(const char *)data + 1, size - 1};
    struct arena mem;
    struct strbuf out = {0};
    arena_init(&mem, 0);
    switch (data[0] % 5) {
    case 3:
        preempt(body, &mem, &out);
        break;
    case 4:
        bind(body, &mem, &out);
        break;
    default:
        candidates(body, data[0] % 5, &mem, &out);
    }
    must_be_json(&out);
    strbuf_done(&out);
    arena_done(&mem);
    return 0;
}
