/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/version.h"

/* The build defines both (Makefile). */
#ifndef DEVICESHARE_VERSION
#define DEVICESHARE_VERSION "unknown"
#endif
#ifndef DEVICESHARE_COMMIT
#define DEVICESHARE_COMMIT ""
#endif

const char *version_number(void)
{
    return DEVICESHARE_VERSION;
}

const char *version_commit(void)
{
    return DEVICESHARE_COMMIT;
}
