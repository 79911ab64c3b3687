/* SPDX-License-Identifier: Apache-2.0 */
/* Calls several servers in turns: `caller ROUNDS CALLS TARGET...` with TARGET as NAME:PID:PORT:PATH:BODY,
 * BODY a file. Each target has one connection, kept alive. In a round every target gets CALLS calls,
 * one after the other; the order turns from round to round. Prints samples, one a line, a name, a tab
 * and a number: "NAME cpu us" is the processor time of the process a call, one for each round;
 * "NAME p50 us", "NAME p99 us" and "NAME p99.9 us" are of all its calls. The last answer is left in
 * BODY.NAME.answer; all answers of a target have the same length. */
#define _GNU_SOURCE /* strcasestr */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 4096

struct target {
    const char *name, *path, *body_file;
    clockid_t clock;
    int fd;
    char *request;
    size_t request_length;
    char *answer; /* with its head */
    size_t capacity, answer_length, body_length;
    uint32_t *latencies_ns;
    size_t calls;
};

static void fail(const char *what, const char *where)
{
    fprintf(stderr, "caller: %s: %s\n", where, what);
    exit(1);
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0)
        fail("no such process", "clock");
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int open_connection(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("cannot connect", "socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void make_request(struct target *target)
{
    FILE *file = fopen(target->body_file, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail("cannot read", target->body_file);
    long length = ftell(file);
    rewind(file);
    target->request = malloc((size_t)length + HEAD_MAX);
    if (target->request == NULL)
        fail("out of memory", target->name);
    int head = snprintf(target->request, HEAD_MAX,
                        "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                        "Content-Length: %ld\r\n\r\n",
                        target->path, length);
    if (fread(target->request + head, 1, (size_t)length, file) != (size_t)length)
        fail("cannot read", target->body_file);
    fclose(file);
    target->request_length = (size_t)head + (size_t)length;
}

/* NAME:PID:PORT:PATH:BODY; the text is taken apart. */
static struct target open_target(char *text, size_t calls)
{
    char *rest = text;
    struct target target = {.name = strsep(&rest, ":")};
    pid_t pid = (pid_t)atoi(strsep(&rest, ":"));
    uint16_t port = (uint16_t)atoi(strsep(&rest, ":"));
    target.path = strsep(&rest, ":");
    target.body_file = rest;
    if (clock_getcpuclockid(pid, &target.clock) != 0)
        fail("no such process", target.name);
    target.fd = open_connection(port);
    target.capacity = 1 << 20;
    target.answer = malloc(target.capacity);
    target.latencies_ns = malloc(calls * sizeof *target.latencies_ns);
    if (target.answer == NULL || target.latencies_ns == NULL)
        fail("out of memory", target.name);
    make_request(&target);
    return target;
}

/* Bytes of the whole answer, or 0 while its head is not complete. */
static size_t whole_length(struct target *target)
{
    target->answer[target->answer_length] = '\0';
    const char *end = strstr(target->answer, "\r\n\r\n");
    const char *length = strcasestr(target->answer, "\r\nContent-Length:");
    if (end == NULL)
        return 0;
    if (strncmp(target->answer, "HTTP/1.1 200", 12) != 0 || length == NULL || length > end)
        fail(target->answer, target->name);
    target->body_length = strtoul(length + 17, NULL, 10);
    return (size_t)(end + 4 - target->answer) + target->body_length;
}

static void receive(struct target *target)
{
    size_t whole = 0;
    target->answer_length = 0;
    while (whole == 0 || target->answer_length < whole) {
        if (whole + 1 > target->capacity) {
            target->capacity = whole + 1;
            target->answer = realloc(target->answer, target->capacity);
            if (target->answer == NULL)
                fail("out of memory", target->name);
        }
        ssize_t got = recv(target->fd, target->answer + target->answer_length,
                           target->capacity - target->answer_length - 1, 0);
        if (got <= 0)
            fail("the connection ended", target->name);
        target->answer_length += (size_t)got;
        if (whole == 0)
            whole = whole_length(target);
    }
}

static void call(struct target *target)
{
    for (size_t sent = 0; sent < target->request_length;) {
        ssize_t more =
            send(target->fd, target->request + sent, target->request_length - sent, MSG_NOSIGNAL);
        if (more <= 0)
            fail("the connection ended", target->name);
        sent += (size_t)more;
    }
    receive(target);
}

static void run_calls(struct target *target, size_t calls)
{
    int64_t begun_cpu = clock_ns(target->clock);
    size_t expected = target->body_length;
    for (size_t i = 0; i < calls; i++) {
        int64_t begun = clock_ns(CLOCK_MONOTONIC);
        call(target);
        target->latencies_ns[target->calls++] = (uint32_t)(clock_ns(CLOCK_MONOTONIC) - begun);
        if (target->body_length != expected)
            fail("answers differ in length", target->name);
    }
    printf("%s cpu us\t%.3f\n", target->name,
           (double)(clock_ns(target->clock) - begun_cpu) / 1000 / (double)calls);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void report(struct target *target)
{
    static const struct {
        const char *name;
        double part;
    } points[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}};
    qsort(target->latencies_ns, target->calls, sizeof *target->latencies_ns, compare);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        size_t at = (size_t)((double)target->calls * points[i].part);
        printf("%s %s us\t%.3f\n", target->name, points[i].name,
               target->latencies_ns[at < target->calls ? at : target->calls - 1] / 1000.0);
    }
    char path[HEAD_MAX];
    snprintf(path, sizeof path, "%s.%s.answer", target->body_file, target->name);
    FILE *file = fopen(path, "wb");
    size_t body = target->body_length;
    if (file == NULL ||
        fwrite(target->answer + target->answer_length - body, 1, body, file) != body ||
        fclose(file) != 0)
        fail("cannot write", path);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fail("ROUNDS CALLS TARGET...", "usage");
    size_t rounds = strtoul(argv[1], NULL, 10), calls = strtoul(argv[2], NULL, 10);
    size_t count = (size_t)argc - 3;
    struct target *targets = calloc(count, sizeof *targets);
    if (targets == NULL)
        fail("out of memory", "targets");
    for (size_t i = 0; i < count; i++) {
        targets[i] = open_target(argv[3 + i], rounds * calls);
        for (int warm = 0; warm < 3; warm++)
            call(&targets[i]);
    }
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++)
            run_calls(&targets[(i + round) % count], calls);
    for (size_t i = 0; i < count; i++)
        report(&targets[i]);
    return 0;
}
