/* Subscribers beside those that are measured: crowd PORT CONNECTIONS SUBSCRIPTIONS LAGGARDS SUBJECT

   Each of CONNECTIONS connections subscribes SUBSCRIPTIONS times to SUBJECT. All but the last
   LAGGARDS of them read, as fast as the server sends. After a line on the input the laggards read as
   well. What comes is dropped, and counted when the line comes. */
#include "program.h"

#define CONNECTIONS_MAX 10000
#define CHUNK (256 * 1024)

static int poll_fd;
static long connections, subscriptions, laggards, dropped;

static void send_all(int socket, const char *data, size_t count) {
    while (count) {
        ssize_t sent = send(socket, data, count, MSG_NOSIGNAL);
        if (sent < 0)
            fail("sending failed: %s", strerror(errno));
        data += sent;
        count -= (size_t)sent;
    }
}

/* Drop what comes up to the PONG: the server's greeting is no message. */
static void await_pong(int socket) {
    static const char pong[] = "PONG\r\n";
    for (size_t matched = 0; matched < sizeof pong - 1;) {
        char byte;
        if (recv(socket, &byte, 1, 0) != 1)
            fail("the server closed a connection, or said nothing");
        matched = byte == pong[matched] ? matched + 1 : byte == 'P';
    }
}

static int connect_to(const char *port, const char *subject) {
    struct sockaddr_in address = address_of("127.0.0.1", port);
    struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    struct linger reset = {1, 0}; /* so that no port stays in TIME_WAIT */
    int made = socket(AF_INET, SOCK_STREAM, 0);
    if (made < 0 || connect(made, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect: %s", strerror(errno));
    set_option(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    set_option(made, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    static const char hello[] = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                                "\"name\":\"benchmark\"}\r\nPING\r\n";
    send_all(made, hello, sizeof hello - 1);
    await_pong(made);
    for (long i = 0; i < subscriptions; i++) {
        char line[256];
        int size = snprintf(line, sizeof line, "SUB %s %ld\r\n", subject, i + 1);
        if (size >= (int)sizeof line)
            fail("%s: too long for a subject", subject);
        send_all(made, line, (size_t)size);
    }
    return made;
}

static void watch(int file) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, file, &event))
        fail("epoll_ctl: %s", strerror(errno));
}

/* Drop what one socket has. MSG_TRUNC drops it in the kernel, without a copy. */
static void drop(int socket) {
    static char chunk[CHUNK];
    ssize_t got = recv(socket, chunk, CHUNK, MSG_TRUNC);
    if (got <= 0)
        fail("the server closed a subscriber's connection");
    dropped += got;
}

int main(int count, char **words) {
    if (count != 6)
        fail("crowd PORT CONNECTIONS SUBSCRIPTIONS LAGGARDS SUBJECT");
    connections = number_of(words[2], 1, CONNECTIONS_MAX);
    subscriptions = number_of(words[3], 1, 1000000);
    laggards = number_of(words[4], 0, connections);
    int *sockets = calloc((size_t)connections, sizeof *sockets);
    if (!sockets || (poll_fd = epoll_create1(0)) < 0)
        fail("not enough memory or files");
    for (long i = 0; i < connections; i++) {
        sockets[i] = connect_to(words[1], words[5]);
        if (i < connections - laggards)
            watch(sockets[i]);
    }
    watch(STDIN_FILENO);
    say_ready();
    for (;;) {
        struct epoll_event events[256];
        int ready = epoll_wait(poll_fd, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd != STDIN_FILENO) {
                drop(events[i].data.fd);
                continue;
            }
            await_line(); /* which ends the program with its input */
            printf("dropped=%ld\n", dropped);
            fflush(stdout);
            for (long at = connections - laggards; at < connections; at++)
                watch(sockets[at]);
            laggards = 0;
        }
    }
}
