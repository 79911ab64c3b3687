/* SPDX-License-Identifier: Apache-2.0 */
#include "http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A numeric address as a socket address; its length, 0 when it is neither IPv4 nor IPv6. */
static socklen_t read_address(const char *text, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(ret, &v4, sizeof(v4));
        return sizeof(v4);
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(ret, &v6, sizeof(v6));
        return sizeof(v6);
    }
    return 0;
}

int listener_open(const char *text, uint16_t port, int *ret_fd, struct error *err)
{
    struct sockaddr_storage address = {0};
    socklen_t size = read_address(text, port, &address);
    if (size == 0)
        return error_set(err, -EINVAL, "%s is not a numeric IPv4 or IPv6 address", text);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
    /* A restart must not wait for connections of the process before. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (const struct sockaddr *)&address, size) != 0 ||
        listen(fd, LISTENER_BACKLOG) != 0) {
        int failure = errno;
        close(fd);
        return error_set(err, -failure, "cannot listen on %s port %u: %s", text, port,
                         strerror(failure));
    }
    *ret_fd = fd;
    return 0;
}

uint16_t listener_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

void listener_refuse(int listen_fd)
{
    /* Drop segments that have SYN without ACK. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13), /* flags of the TCP header */
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    /* Where filters are forbidden a queue of no length is nearly as good. */
    if (setsockopt(listen_fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0)
        listen(listen_fd, 0);
}
