/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_NAMES_H
#define CORE_NAMES_H

#include <stdbool.h>

#include "base/str.h"

/* Syntax of Kubernetes names (apimachinery pkg/util/validation): what passes may be put into a
 * URL. */

#define NAME_SUBDOMAIN_MAX 253
#define NAME_LABEL_MAX 63
#define NAME_UID_MAX 64

/* DNS-1123 subdomain: names of pods, nodes and Devices. */
bool name_is_subdomain(struct str name);

/* DNS-1123 label: names of namespaces. */
bool name_is_label(struct str name);

/* A UID: 1 to NAME_UID_MAX of [A-Za-z0-9-]. Kubernetes writes RFC 4122 UUIDs, static (mirror)
 * pods carry 32 hex digits; nothing longer is known. */
bool name_is_uid(struct str uid);

#endif
