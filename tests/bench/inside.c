/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks from inside: `inside OBJECTS BENCHMARK NODES PODS ROUNDS CALLS`, or
 * `inside OBJECTS drain KUBECONFIG ROUNDS`. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"

static const struct {
    const char *name;
    void (*run)(const struct scale *scale);
} benchmarks[] = {
    {"scan", bench_scan},     {"verbs", bench_verbs},   {"bind", bench_bind},
    {"events", bench_events}, {"cycles", bench_cycles}, {"locks", bench_locks},
};

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int64_t thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t process_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void sample(const char *name, double value)
{
    printf("%s\t%.3f\n", name, value);
}

void must(bool right, const char *sentence)
{
    if (right)
        return;
    fprintf(stderr, "benchmark: %s\n", sentence);
    exit(1);
}

int main(int argc, char **argv)
{
    must(argc >= 5, "which one?");
    log_set_verbosity(-1);
    objects_open(argv[1]);
    if (strcmp(argv[2], "drain") == 0) {
        bench_drain(argv[3], (uint32_t)atoi(argv[4]));
        return 0;
    }
    must(argc == 7, "NODES PODS ROUNDS CALLS");
    struct scale scale = {(uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[5]),
                          (uint32_t)atoi(argv[6])};
    for (size_t i = 0; i < sizeof benchmarks / sizeof *benchmarks; i++) {
        if (strcmp(argv[2], benchmarks[i].name) == 0) {
            benchmarks[i].run(&scale);
            return 0;
        }
    }
    must(false, "no such benchmark");
}
