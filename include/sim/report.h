/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "base/strbuf.h"
#include "sim/experiment.h"

/* What was run, for the head of a report. */
struct report_head {
    const char *policy, *nodes, *pods;
    const char *order; /* file, or NULL: drawn from seed */
    uint64_t seed;
    uint32_t churn; /* arrivals; 0: inflation */
    double load;    /* of churn */
    enum learn learn;
    const char *mix; /* file whose list was learned, or NULL: that of pods */
    bool no_cache;
};

/* Append the result for people. */
void report_text(const struct report_head *head, const struct experiment_result *result,
                 struct strbuf *out);

/* Append it as one JSON object and a newline. */
void report_json(const struct report_head *head, const struct experiment_result *result,
                 struct strbuf *out);

#endif
