/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a trace of pods against a cluster with one placement policy, and prints how much of its
 * GPUs was allocated, what was rejected and how long decisions took.
 */
#include "base/arena.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cmd/trace_manifests.h"
#include "sim/experiment.h"
#include "sim/report.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define INFLATION_RATIO 1.3 /* of the capacity, as published */
#define CHURN_MAX       100000000
#define LOAD_MAX        1000.0

enum {
    OPTION_NODES = 256,
    OPTION_PODS,
    OPTION_ORDER,
    OPTION_SEED,
    OPTION_CHURN,
    OPTION_LOAD,
    OPTION_POLICY,
    OPTION_LEARN,
    OPTION_MIX,
    OPTION_NO_CACHE,
    OPTION_JSON,
};

struct command {
    struct report_head head;
    const struct sim_policy *policy;
    bool json, help, seeded;
};

static void usage(FILE *out)
{
    fputs(
        "Usage: deviceshare-sim --nodes FILE --pods FILE --policy NAME [FLAG]...\n"
        "Play a trace of pods against a cluster and print how much of its GPUs was allocated.\n"
        "\n"
        "      --nodes FILE       the cluster: CSV with sn, cpu_milli, memory_mib, gpu, model, or\n"
        "                         manifests (YAML or JSON) of Nodes and their Devices\n"
        "      --pods FILE        the pods: CSV with name, cpu_milli, memory_mib, num_gpu,\n"
        "                         gpu_milli and, if there, gpu_spec, or manifests of Pods\n"
        "      --order FILE       ranks of the nodes and order of the arrivals, two lines\n"
        "      --seed N           draw them from this seed (1)\n"
        "      --churn ARRIVALS   pods come and go, so many; without it they come and stay until\n"
        "                         130 % of the GPUs are asked for\n"
        "      --load X           with --churn: offered GPU load, of the capacity (1)\n"
        "      --learn FROM       learn tables from the whole list of pods (list), from those that\n"
        "                         came so far (seen), keep the shipped guess (prior), or know\n"
        "                         nothing\n"
        "      --mix FILE         with --learn list: learn from this list of pods, not from --pods\n"
        "      --no-cache         score every node in every decision\n"
        "      --json             print one JSON object\n"
        "  -h, --help             print this and exit\n"
        "      --policy NAME      one of:\n",
        out);
    for (unsigned i = 0; sim_policy_at(i) != NULL; i++)
        fprintf(out, "          %-12s %s\n", sim_policy_at(i)->name, sim_policy_at(i)->summary);
    fputs("\nExit status: 0, 1 when a file cannot be used, 2 for a wrong command line.\n", out);
}

/* ---- command line ---- */

static int bad_value(const char *flag, const char *value, const char *want, struct error *err)
{
    return error_set(err, -EINVAL, "--%s is \"%s\", want %s", flag, value, want);
}

static int take_number(const char *flag, const char *value, int64_t min, int64_t max, int64_t *ret,
                       struct error *err)
{
    int64_t number;
    if (!parse_int64(str_from(value), &number) || number < min || number > max)
        return error_set(err, -EINVAL, "--%s is \"%s\", want a number of %lld..%lld", flag, value,
                         (long long)min, (long long)max);
    *ret = number;
    return 0;
}

static int take_load(const char *value, double *ret, struct error *err)
{
    char *end;
    double load = strtod(value, &end);
    if (end == value || *end != '\0' || !(load > 0) || load > LOAD_MAX)
        return bad_value("load", value, "a number above 0", err);
    *ret = load;
    return 0;
}

static int take_learn(const char *value, enum learn *ret, struct error *err)
{
    *ret = learn_find(str_from(value));
    return *ret < LEARN_MAX ? 0
                            : bad_value("learn", value, "list, seen, prior or nothing", err);
}

static int take_policy(const char *value, struct command *command, struct error *err)
{
    command->policy = sim_policy_find(str_from(value));
    command->head.policy = value;
    return command->policy != NULL ? 0 : bad_value("policy", value, "one that --help lists", err);
}

static int take_option(int option, const char *value, struct command *command, struct error *err)
{
    struct report_head *head = &command->head;
    int64_t number = 0;
    int rc = 0;
    switch (option) {
    case OPTION_NODES:
        head->nodes = value;
        break;
    case OPTION_PODS:
        head->pods = value;
        break;
    case OPTION_ORDER:
        head->order = value;
        break;
    case OPTION_SEED:
        rc = take_number("seed", value, 0, INT64_MAX, &number, err);
        head->seed = (uint64_t)number;
        command->seeded = true;
        break;
    case OPTION_CHURN:
        rc = take_number("churn", value, 1, CHURN_MAX, &number, err);
        head->churn = (uint32_t)number;
        break;
    case OPTION_LOAD:
        return take_load(value, &head->load, err);
    case OPTION_POLICY:
        return take_policy(value, command, err);
    case OPTION_LEARN:
        return take_learn(value, &head->learn, err);
    case OPTION_MIX:
        head->mix = value;
        break;
    case OPTION_NO_CACHE:
        head->no_cache = true;
        break;
    case OPTION_JSON:
        command->json = true;
        break;
    case 'h':
        command->help = true;
        break;
    default: /* getopt has said why */
        return error_set(err, -EINVAL, "see --help");
    }
    return rc;
}

static int check(const struct command *command, struct error *err)
{
    const struct report_head *head = &command->head;
    if (head->nodes == NULL || head->pods == NULL || command->policy == NULL)
        return error_set(err, -EINVAL, "--nodes, --pods and --policy are needed; see --help");
    if (head->order != NULL && (command->seeded || head->churn > 0))
        return error_set(err, -EINVAL, "--order does not go with --seed or --churn");
    if (head->mix != NULL && head->learn != LEARN_LIST)
        return error_set(err, -EINVAL, "--mix goes with --learn list only");
    return 0;
}

static int parse(int argc, char **argv, struct command *ret, struct error *err)
{
    static const struct option options[] = {
        {"nodes", required_argument, NULL, OPTION_NODES},
        {"pods", required_argument, NULL, OPTION_PODS},
        {"order", required_argument, NULL, OPTION_ORDER},
        {"seed", required_argument, NULL, OPTION_SEED},
        {"churn", required_argument, NULL, OPTION_CHURN},
        {"load", required_argument, NULL, OPTION_LOAD},
        {"policy", required_argument, NULL, OPTION_POLICY},
        {"learn", required_argument, NULL, OPTION_LEARN},
        {"mix", required_argument, NULL, OPTION_MIX},
        {"no-cache", no_argument, NULL, OPTION_NO_CACHE},
        {"json", no_argument, NULL, OPTION_JSON},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct command command = {.head = {.seed = 1, .load = 1}};
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        int rc = take_option(option, optarg, &command, err);
        if (rc < 0)
            return rc;
    }
    if (optind < argc)
        return error_set(err, -EINVAL, "\"%s\" is no flag; see --help", argv[optind]);
    *ret = command;
    return command.help ? 0 : check(&command, err);
}

/* ---- run ---- */

static int64_t thread_cpu_ns(void *self)
{
    struct timespec now;
    (void)self;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int run_on(const struct command *command, const struct trace *trace,
                  const struct trace *mix, struct arena *arena, struct experiment_result *ret,
                  struct error *err)
{
    const struct report_head *head = &command->head;
    const struct experiment experiment = {
        .trace = trace,
        .policy = command->policy,
        .clock = clock_system(),
        .cpu_clock = {.now_ns = thread_cpu_ns},
        .learn = head->learn,
        .mix = head->mix != NULL ? mix : NULL,
        .no_cache = head->no_cache,
    };
    struct sim_random random = {head->seed};
    struct arrivals arrivals;
    int rc;
    if (head->order != NULL)
        rc = arrivals_read(trace, head->order, arena, &arrivals, err);
    else if (head->churn > 0)
        rc = arrivals_draw_ranks(trace, &random, arena, &arrivals, err);
    else
        rc = arrivals_draw(trace, INFLATION_RATIO, &random, arena, &arrivals, err);
    if (rc < 0)
        return rc;
    if (head->churn > 0)
        return experiment_churn(&experiment, &arrivals, head->churn, head->load, &random, arena,
                                ret, err);
    return experiment_inflation(&experiment, &arrivals, &random, arena, ret, err);
}

static int print(const struct command *command, const struct experiment_result *result,
                 struct error *err)
{
    struct strbuf out = {0};
    int rc = 0;
    (command->json ? report_json : report_text)(&command->head, result, &out);
    if (out.failed)
        rc = error_set(err, -ENOMEM, "out of memory");
    else if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0)
        rc = error_set(err, -EIO, "cannot write the report");
    strbuf_done(&out);
    return rc;
}

static int run(const struct command *command, struct error *err)
{
    struct trace trace = {0}, mix = {0};
    struct arena arena;
    struct experiment_result result;
    arena_init(&arena, 0);
    int rc = trace_read(command->head.nodes, command->head.pods, &trace_manifests, &trace, err);
    if (rc == 0 && command->head.mix != NULL)
        rc = trace_read(command->head.nodes, command->head.mix, &trace_manifests, &mix, err);
    if (rc == 0)
        rc = run_on(command, &trace, &mix, &arena, &result, err);
    if (rc == 0)
        rc = print(command, &result, err);
    arena_done(&arena);
    trace_done(&mix);
    trace_done(&trace);
    return rc;
}

int main(int argc, char **argv)
{
    struct command command;
    struct error err = {0};
    if (parse(argc, argv, &command, &err) < 0) {
        fprintf(stderr, "deviceshare-sim: %s\n", err.text);
        return 2;
    }
    if (command.help) {
        usage(stdout);
        return 0;
    }
    if (run(&command, &err) < 0) {
        fprintf(stderr, "deviceshare-sim: %s\n", err.text);
        return 1;
    }
    return 0;
}
