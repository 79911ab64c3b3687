/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_REFUSING_PORT_H
#define SUPPORT_REFUSING_PORT_H

#include "sched/port.h"

/* An outward port that knows no pod (-ENOENT) and refuses every binding (-EIO); it wakes nobody. */
struct port refusing_port(void);

#endif
