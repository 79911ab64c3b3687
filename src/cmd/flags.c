/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/flags.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>

/* Values of the options that have no letter. */
enum {
    OPTION_CONFIG = 256,
    OPTION_VALIDATE,
    OPTION_PRINT,
    OPTION_REFERENCE,
    OPTION_VERSION,
    OPTION_OVERRIDES, /* the first of the flags that set a key */
};

/* Flags that set a key of the configuration, in the order of their option values. */
static const struct {
    const char *flag, *key;
} override_flags[] = {
    {"bind-address", "server.address"},
    {"port", "server.port"},
    {"embedded-manifests", "embedded.manifests"},
    {"v", "log.verbosity"},
    {"kubeconfig", "kubernetes.kubeconfig"},
    {"leader-elect", "leaderElection.enabled"},
    {"leader-elect-resource-namespace", "leaderElection.namespace"},
    {"leader-elect-resource-name", "leaderElection.name"},
    {"leader-elect-lease-duration", "leaderElection.leaseDuration"},
    {"leader-elect-renew-deadline", "leaderElection.renewDeadline"},
    {"leader-elect-retry-period", "leaderElection.retryPeriod"},
};

enum {
    OVERRIDE_FLAGS = sizeof(override_flags) / sizeof(override_flags[0]),
    OVERRIDE_VERBOSITY = 3
};

static const struct option options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"validate-config", no_argument, NULL, OPTION_VALIDATE},
    {"print-config", no_argument, NULL, OPTION_PRINT},
    {"print-config-reference", no_argument, NULL, OPTION_REFERENCE},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, 'h'},
    {"bind-address", required_argument, NULL, OPTION_OVERRIDES},
    {"port", required_argument, NULL, OPTION_OVERRIDES + 1},
    {"embedded-manifests", required_argument, NULL, OPTION_OVERRIDES + 2},
    {"v", required_argument, NULL, OPTION_OVERRIDES + OVERRIDE_VERBOSITY},
    {"kubeconfig", required_argument, NULL, OPTION_OVERRIDES + 4},
    {"leader-elect", optional_argument, NULL, OPTION_OVERRIDES + 5}, /* alone: true */
    {"leader-elect-resource-namespace", required_argument, NULL, OPTION_OVERRIDES + 6},
    {"leader-elect-resource-name", required_argument, NULL, OPTION_OVERRIDES + 7},
    {"leader-elect-lease-duration", required_argument, NULL, OPTION_OVERRIDES + 8},
    {"leader-elect-renew-deadline", required_argument, NULL, OPTION_OVERRIDES + 9},
    {"leader-elect-retry-period", required_argument, NULL, OPTION_OVERRIDES + 10},
    {NULL, 0, NULL, 0},
};

void flags_print_help(void)
{
    static const char help[] =
        "Usage: deviceshare-extender [FLAG]...\n"
        "Share GPUs, RDMA and FPGA devices among pods, as an extender of kube-scheduler.\n"
        "\n"
        "      --config FILE              read the configuration from FILE\n"
        "      --bind-address ADDRESS     listen on this IP address (server.address)\n"
        "      --port PORT                listen on this port, 0 for any free one (server.port)\n"
        "      --embedded-manifests PATH  serve an embedded cluster made of this manifest, or of\n"
        "                                 those in this directory (embedded.manifests)\n"
        "      --kubeconfig FILE          how to reach the API server; without it the service\n"
        "                                 account of the pod (kubernetes.kubeconfig)\n"
        "      --leader-elect[=BOOL]      stand for election (leaderElection.enabled); also\n"
        "                                 --leader-elect-resource-namespace, -resource-name,\n"
        "                                 -lease-duration, -renew-deadline, -retry-period\n"
        "  -v, --v LEVEL                  verbosity of the log, 0 to 10 (log.verbosity)\n"
        "      --validate-config          check the configuration and exit\n"
        "      --print-config             print the configuration in effect and exit\n"
        "      --print-config-reference   print a table of all keys and exit\n"
        "      --version                  print the version and exit\n"
        "  -h, --help                     print this text and exit\n"
        "\n"
        "Flags win over the file. Signals: TERM and INT finish the requests that are being\n"
        "answered, within server.drainTimeout, and exit; a second one exits at once. HUP reads\n"
        "the configuration again and takes over what can change while running, if all of it is\n"
        "valid.\n"
        "\n"
        "Exit status: 0 after a clean stop; 1 when the start failed or requests were cut off at\n"
        "the stop; 2 when the command line or the configuration is invalid.\n";
    fputs(help, stdout);
}

static int usage_error(const char *problem, const char *subject)
{
    if (problem != NULL)
        fprintf(stderr, "deviceshare-extender: %s: %s\n", problem, subject);
    fputs("Try 'deviceshare-extender --help'.\n", stderr);
    return -EINVAL;
}

static int add_override(struct flags *flags, unsigned which, const char *value)
{
    if (flags->override_count == FLAGS_OVERRIDES_MAX)
        return usage_error("too many flags", override_flags[which].flag);
    flags->overrides[flags->override_count++] =
        (struct flags_override){override_flags[which].key, value != NULL ? value : "true"};
    return 0;
}

static int take_option(struct flags *flags, int option, const char *value)
{
    if (option == 'v')
        option = OPTION_OVERRIDES + OVERRIDE_VERBOSITY;
    if (option >= OPTION_OVERRIDES && option < OPTION_OVERRIDES + OVERRIDE_FLAGS)
        return add_override(flags, (unsigned)(option - OPTION_OVERRIDES), value);
    switch (option) {
    case OPTION_CONFIG:
        flags->config_path = value;
        return 0;
    case OPTION_VALIDATE:
        flags->action = FLAGS_VALIDATE_CONFIG;
        return 0;
    case OPTION_PRINT:
        flags->action = FLAGS_PRINT_CONFIG;
        return 0;
    case OPTION_REFERENCE:
        flags->action = FLAGS_PRINT_CONFIG_REFERENCE;
        return 0;
    case OPTION_VERSION:
        flags->action = FLAGS_VERSION;
        return 0;
    case 'h':
        flags->action = FLAGS_HELP;
        return 0;
    default: /* getopt has said what is wrong */
        return usage_error(NULL, NULL);
    }
}

int flags_parse(int argc, char **argv, struct flags *ret)
{
    struct flags flags = {.action = FLAGS_RUN};
    int option;
    optind = 0; /* glibc: start over, also when called again */
    while ((option = getopt_long(argc, argv, "v:h", options, NULL)) != -1) {
        int result = take_option(&flags, option, optarg);
        if (result < 0)
            return result;
    }
    if (optind < argc)
        return usage_error("unexpected argument", argv[optind]);
    *ret = flags;
    return 0;
}

static int apply_overrides(const struct flags *flags, struct config *config,
                           struct strbuf *problems)
{
    int result = 0;
    struct error err = {0};
    for (unsigned i = 0; i < flags->override_count; i++) {
        if (config_set(config, flags->overrides[i].key, flags->overrides[i].value, &err) < 0) {
            strbuf_printf(problems, "command line: %s\n", err.text);
            result = -EINVAL;
        }
    }
    if (result == 0 && flags->override_count > 0 && config_check(config, &err) < 0) {
        strbuf_printf(problems, "command line: %s\n", err.text);
        result = -EINVAL;
    }
    return result;
}

int flags_load_config(const struct flags *flags, struct config *ret, struct strbuf *problems)
{
    struct config config;
    config_defaults(&config);
    if (flags->config_path != NULL) {
        int result = config_load(flags->config_path, &config, problems);
        if (result < 0)
            return result;
    }
    int result = apply_overrides(flags, &config, problems);
    if (result == 0)
        *ret = config;
    return result;
}
