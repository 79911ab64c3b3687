/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include <stdint.h>

#include "base/error.h"

/* The listening socket. */

#define LISTENER_BACKLOG 1024

/* A non-blocking socket that listens on a numeric address; port 0 = any. 0, -EINVAL for an address
 * that is none, or what the system says. */
int listener_open(const char *address, uint16_t port, int *ret_fd, struct error *err);

/* The port it is bound to. */
uint16_t listener_port(int listen_fd);

/* Let the kernel begin no new connection; those that are made or on their way can still be
 * accepted. Closing the socket alone would reset those, and their clients have perhaps sent their
 * request. */
void listener_refuse(int listen_fd);

#endif
