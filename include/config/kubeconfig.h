/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_KUBECONFIG_H
#define CONFIG_KUBECONFIG_H

#include "base/api_access.h"
#include "base/arena.h"
#include "base/error.h"

/*
 * Read a kubeconfig (client-go tools/clientcmd): the context called `context`, or current-context
 * when NULL. Relative file names are relative to the file; *-data fields are base64 and win over
 * files; tokenFile wins over token. exec plugins, auth-provider, username/password, impersonation
 * and proxy-url are refused with a sentence that names the field. Unknown keys are ignored, as
 * kubectl does. -EINVAL, -ENOENT, -ENOMEM; the sentence begins with PATH or PATH:LINE:COLUMN.
 */
int kubeconfig_load(const char *path, const char *context, struct arena *mem,
                    struct api_access *ret, struct error *err);

#endif
