/* Many clients that each send little: trickle PORT PUBLISHERS MESSAGES RATE TOGETHER SIZE

   MESSAGES of SIZE bytes go out at RATE per second in all, from one connection after the other:
   number N to subject `bench.N`. Always TOGETHER connections send one message each, then nothing
   happens until the next ones are due. A connection has sent its message long before its next one,
   so the server reads one at a time. If this program wakes late, it sends what is due. When all is
   sent, each connection waits until the server has read everything (PING, PONG). */
#include "program.h"

#include <sys/prctl.h>

#define PUBLISHERS_MAX 10000
#define LINE_MAX_BYTES 8192 /* of what the server says before CONNECT */

struct publisher {
    int socket;
    int size;
    char *publication;
    int matched; /* bytes of the PONG that have come */
};

static struct publisher *publishers;
static int poll_fd;

static void send_all(struct publisher *publisher, const char *data, int size) {
    ssize_t sent = send(publisher->socket, data, (size_t)size, MSG_NOSIGNAL);
    if (sent < 0)
        fail("sending failed: %s", strerror(errno));
    if (sent != size)
        fail("the server took %zd bytes of a message with %d", sent, size);
}

/* Read the server's first line, which is INFO, and say who this is. */
static void introduce(struct publisher *publisher) {
    static const char connect[] = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                                  "\"name\":\"benchmark\"}\r\n";
    char data[LINE_MAX_BYTES];
    for (ssize_t got = 0; got < 2 || data[got - 1] != '\n';) {
        ssize_t more = recv(publisher->socket, data + got, sizeof data - (size_t)got, 0);
        if (more <= 0)
            fail("the server closed the connection, or said too much");
        got += more;
    }
    send_all(publisher, connect, sizeof connect - 1);
}

static void connect_to(struct publisher *publisher, const char *port) {
    struct sockaddr_in address = address_of("127.0.0.1", port);
    struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    struct linger reset = {1, 0}; /* so that no port stays in TIME_WAIT */
    int yes = 1;
    publisher->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (publisher->socket < 0 ||
        connect(publisher->socket, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect: %s", strerror(errno));
    set_option(publisher->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    set_option(publisher->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    set_option(publisher->socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    set_option(publisher->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    introduce(publisher);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = publisher};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, publisher->socket, &event))
        fail("epoll_ctl: %s", strerror(errno));
}

/* Take what has come, and say whether the PONG is complete. The server's own PINGs are let pass. */
static int hear(struct publisher *publisher) {
    static const char pong[] = "PONG\r\n";
    char data[4096];
    ssize_t size = recv(publisher->socket, data, sizeof data, 0);
    if (size <= 0)
        fail("the server closed a publisher's connection");
    if (memchr(data, '-', (size_t)size))
        fail("the server said %.*s", (int)size, data);
    for (ssize_t at = 0; at < size; at++) {
        publisher->matched = data[at] == pong[publisher->matched] ? publisher->matched + 1
                                                                  : data[at] == 'P';
        if (publisher->matched == sizeof pong - 1)
            return 1;
    }
    return 0;
}

/* Have every connection ask for a PONG, and wait for all. */
static void settle(long count) {
    struct epoll_event events[256];
    for (long i = 0; i < count; i++) {
        publishers[i].matched = 0;
        send_all(&publishers[i], "PING\r\n", 6);
    }
    for (long left = count; left;) {
        int ready = epoll_wait(poll_fd, events, 256, WAIT_MS);
        if (ready <= 0)
            fail("no PONG for %d s, %ld of %ld publishers wait", WAIT_MS / 1000, left, count);
        for (int i = 0; i < ready; i++)
            left -= hear(events[i].data.ptr);
    }
}

static void prepare(struct publisher *publisher, long number, long size) {
    int head = snprintf(NULL, 0, "PUB bench.%ld %ld\r\n", number, size);
    publisher->size = head + (int)size + 2;
    if ((publisher->publication = malloc((size_t)publisher->size + 1)) == NULL)
        fail("not enough memory");
    sprintf(publisher->publication, "PUB bench.%ld %ld\r\n", number, size);
    fill_payload(publisher->publication + head, size);
    memcpy(publisher->publication + head + size, "\r\n", 2);
}

static void sleep_until(int64_t at) {
    struct timespec when = {at / 1000000000, at % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

int main(int count, char **words) {
    if (count != 7)
        fail("trickle PORT PUBLISHERS MESSAGES RATE TOGETHER SIZE");
    long total = number_of(words[2], 1, PUBLISHERS_MAX);
    long messages = number_of(words[3], 1, 1000000000);
    long rate = number_of(words[4], 1, 10000000), together = number_of(words[5], 1, total);
    long size = number_of(words[6], 0, 60000);
    if ((publishers = calloc((size_t)total, sizeof *publishers)) == NULL)
        fail("not enough memory");
    poll_fd = epoll_create1(0);
    prctl(PR_SET_TIMERSLACK, 1UL); /* otherwise each wait is 50 us longer */
    for (long i = 0; i < total; i++) {
        connect_to(&publishers[i], words[1]);
        prepare(&publishers[i], i, size);
    }
    settle(total);
    say_ready();
    await_line();
    int64_t began_at = wall_ns(), cpu = cpu_ns();
    for (long sent = 0; sent < messages;) {
        int64_t passed = wall_ns() - began_at;
        long groups = (long)((double)passed * (double)rate / 1e9) / together + 1;
        long due = groups * together;
        for (; sent < messages && sent < due; sent++) {
            struct publisher *publisher = &publishers[sent % total];
            send_all(publisher, publisher->publication, publisher->size);
        }
        if (sent < messages)
            sleep_until(began_at + (int64_t)((double)sent * 1e9 / (double)rate));
    }
    double seconds = seconds_since(began_at);
    settle(total);
    printf("seconds=%.9f cpu=%.9f\n", seconds, cpu_since(cpu));
    await_end();
}
