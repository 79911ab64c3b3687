/* SPDX-License-Identifier: Apache-2.0 */
/* What HTTP alone costs: receives a request in full, in the daemon's threading mode and with its
 * connection memory, and answers POST /N with N constant bytes. POST /filter gives the names that
 * kube-scheduler sent back to it, as the quickest extender there can be, and POST /prioritize nothing.
 * Prints its port and serves until its standard input ends. */
#include <microhttpd.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTION_MEMORY_BYTES ((size_t)256 * 1024)
#define THREAD_STACK_BYTES      ((size_t)512 * 1024)
#define ANSWER_MAX              (64u << 20)

static char *constant;

/* A body that is kept. */
struct body {
    char *text;
    size_t length, capacity;
};

static enum MHD_Result answer(struct MHD_Connection *connection, size_t length, char *text,
                              enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(length, text, mode);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result keep(struct body *body, const char *data, size_t size)
{
    if (body->length + size + 1 > body->capacity) {
        body->capacity = (body->length + size) * 2 + 1;
        body->text = realloc(body->text, body->capacity);
        if (body->text == NULL)
            return MHD_NO;
    }
    memcpy(body->text + body->length, data, size);
    body->length += size;
    body->text[body->length] = '\0';
    return MHD_YES;
}

/* The array of names is the last thing in the body. */
static enum MHD_Result echo_names(struct MHD_Connection *connection, struct body *body)
{
    static const char key[] = "\"NodeNames\":[", empty[] = "[]";
    static const char rest[] = ",\"FailedNodes\":{},\"Error\":\"\"}";
    const char *names = strstr(body->text, key);
    names = names != NULL ? names + sizeof key - 2 : empty;
    size_t length = strcspn(names, "]") + 1;
    char *text = malloc(length + sizeof key + sizeof rest);
    if (text == NULL)
        return MHD_NO;
    int size = sprintf(text, "{\"NodeNames\":%.*s%s", (int)length, names, rest);
    return answer(connection, (size_t)size, text, MHD_RESPMEM_MUST_FREE);
}

static void on_over(void *self, struct MHD_Connection *connection, void **request,
                    enum MHD_RequestTerminationCode why)
{
    struct body *body = *request;
    (void)self, (void)connection, (void)why;
    if (body != NULL)
        free(body->text);
    free(body);
    *request = NULL;
}

static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_size, void **request)
{
    static char none[] = "[]";
    struct body *body = *request;
    bool filter = strcmp(url, "/filter") == 0;
    (void)self, (void)method, (void)version;
    if (body == NULL) {
        *request = calloc(1, sizeof *body);
        return *request != NULL ? MHD_YES : MHD_NO;
    }
    if (*upload_size > 0) {
        enum MHD_Result kept = filter ? keep(body, upload_data, *upload_size) : MHD_YES;
        *upload_size = 0;
        return kept;
    }
    if (filter && body->text != NULL)
        return echo_names(connection, body);
    size_t length = strtoul(url + 1, NULL, 10);
    if (length == 0)
        return answer(connection, sizeof none - 1, none, MHD_RESPMEM_PERSISTENT);
    return length <= ANSWER_MAX ? answer(connection, length, constant, MHD_RESPMEM_PERSISTENT)
                                : MHD_NO;
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
        CONNECTION_MEMORY_BYTES, MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK_BYTES,
        MHD_OPTION_NOTIFY_COMPLETED, on_over, NULL, MHD_OPTION_END);
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
