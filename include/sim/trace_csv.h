/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_TRACE_CSV_H
#define SIM_TRACE_CSV_H

#include "sim/trace.h"

/*
 * The CSV files of the public openb traces:
 * nodes: sn, cpu_milli, memory_mib, gpu, model; pods: name, cpu_milli, memory_mib, num_gpu,
 * gpu_milli and, if there, gpu_spec (models joined by a bar).
 */
extern const struct trace_format trace_csv;

#endif
