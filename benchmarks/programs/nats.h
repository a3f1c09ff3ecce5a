/* What the programs that are clients of NATS share: a connection, and the percentiles of waits. */
#ifndef BENCHMARK_NATS_H
#define BENCHMARK_NATS_H

#include "program.h"

static inline void send_all(int socket, const char *data, size_t count) {
    while (count) {
        ssize_t sent = send(socket, data, count, MSG_NOSIGNAL);
        if (sent < 0)
            fail("sending failed: %s", strerror(errno));
        data += sent;
        count -= (size_t)sent;
    }
}

/* Send a line of a client of NATS, and wait for the PONG of the PING that it ends with. */
static inline void settle(int socket, const char *line) {
    static const char pong[] = "PONG\r\n";
    send_all(socket, line, strlen(line));
    for (size_t matched = 0; matched < sizeof pong - 1;) {
        char byte;
        if (recv(socket, &byte, 1, 0) != 1)
            fail("the server closed a connection, or said nothing");
        if (byte == pong[matched])
            matched++;
        else
            matched = byte == 'P';
    }
}

/* Connect to a server that speaks NATS, and send this line, if any, which ends with a PING. */
static inline int connect_to(const char *port, const char *line) {
    struct sockaddr_in address = address_of("127.0.0.1", port);
    struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    struct linger reset = {1, 0}; /* so that no port stays in TIME_WAIT */
    int yes = 1, made = socket(AF_INET, SOCK_STREAM, 0);
    if (made < 0 || connect(made, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect: %s", strerror(errno));
    set_option(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    set_option(made, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    set_option(made, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    set_option(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    settle(made, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                 "\"name\":\"benchmark\"}\r\nPING\r\n");
    if (*line)
        settle(made, line);
    return made;
}

static inline void watch(int poll_fd, int socket, void *owner) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, socket, &event))
        fail("epoll_ctl: %s", strerror(errno));
}

static inline int compare_waits(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static inline uint32_t wait_of(int64_t ns) { return ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns; }

/* Say how long a run took, and the percentiles of all its waits, of which there is one at least. */
static inline void say_waits(double seconds, double cpu, uint32_t *waits, long count) {
    static const struct {
        const char *name;
        double share;
    } points[] = {{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p999", .999}, {"max", 1}};
    qsort(waits, (size_t)count, sizeof *waits, compare_waits);
    printf("seconds=%.9f cpu=%.9f", seconds, cpu);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        printf(" %s=%.3f", points[i].name, waits[(long)((double)(count - 1) * points[i].share)] / 1e3);
    putchar('\n');
}

#endif
