/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_VERSION_H
#define CMD_VERSION_H

/* "0.1.0", or "unknown" where the build does not say. */
const char *version_number(void);

/* The commit it was built from; "" if the build did not know one. */
const char *version_commit(void);

#endif
