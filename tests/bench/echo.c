/* SPDX-License-Identifier: Apache-2.0 */
/* What HTTP alone costs: receives a request in full, in the daemon's threading mode and with its
 * connection memory, and answers POST /N with N constant bytes. Prints its port and serves until its
 * standard input ends. */
#include <microhttpd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTION_MEMORY_BYTES ((size_t)256 * 1024)
#define THREAD_STACK_BYTES      ((size_t)512 * 1024)
#define ANSWER_MAX              (64u << 20)

static char *constant;

static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_size, void **request)
{
    static int begun;
    (void)self, (void)method, (void)version, (void)upload_data;
    if (*request == NULL) {
        *request = &begun;
        return MHD_YES;
    }
    if (*upload_size > 0) {
        *upload_size = 0;
        return MHD_YES;
    }
    size_t length = strtoul(url + 1, NULL, 10);
    if (length > ANSWER_MAX)
        return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, constant, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

int main(void)
{
    constant = malloc(ANSWER_MAX);
    if (constant == NULL)
        return 1;
    memset(constant, ' ', ANSWER_MAX);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
            MHD_USE_ITC | MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_request, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        CONNECTION_MEMORY_BYTES, MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK_BYTES, MHD_OPTION_END);
    if (daemon == NULL)
        return 1;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    printf("%u\n", info->port);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    MHD_stop_daemon(daemon);
    free(constant);
    return 0;
}
