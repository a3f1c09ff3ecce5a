/* How long messages take at a rate: paced PORT PUBLISHERS SUBSCRIBERS MESSAGES RATE TOGETHER SIZE

   MESSAGES of SIZE bytes go out at RATE per second in all, each with one send(), from one of
   PUBLISHERS connections after the other: number N to subject `bench.N`. SUBSCRIBERS connections
   get all of them. Always TOGETHER messages are sent at once. RATE 0 is as fast as the server reads.

   A payload begins with `Z` and the time at which its message was due, in nanoseconds, in hex. A
   message that is sent late counts from when it was due: a server that stalls the publishers does
   not hide its stall. All waits are kept, so the percentiles are exact.

   Each subscriber must get as many messages as were sent, and their times must have the same sum:
   one that is lost is not made up for by one that comes twice. */
#include "nats.h"

#include <pthread.h>
#include <sys/prctl.h>

#define CONNECTIONS_MAX 10000
#define STAMP 17 /* `Z` and 16 digits */
#define CHUNK (256 * 1024)

struct publisher {
    int socket, head, size;
    char *publication;
};

struct subscriber {
    int socket;
    long left; /* messages */
    int digits; /* of the stamp that is being read, which may come in two pieces; -1: none */
    uint64_t stamp, sum; /* sum: of all stamps, modulo 2**64 */
};

static struct publisher *publishers;
static struct subscriber *subscribers;
static long publisher_count, subscriber_count, messages, rate, together, size;
static uint32_t *waits; /* ns */
static long waited;
static int64_t ended_at;
static uint64_t sum; /* of the stamps that were sent */

static void prepare(struct publisher *publisher, long number) {
    char line[64];
    int head = snprintf(line, sizeof line, "PUB bench.%ld %ld\r\n", number, size);
    publisher->head = head;
    publisher->size = head + (int)size + 2;
    if ((publisher->publication = malloc((size_t)publisher->size)) == NULL)
        fail("not enough memory");
    memcpy(publisher->publication, line, (size_t)head);
    fill_payload(publisher->publication + head, size);
    memcpy(publisher->publication + head + size, "\r\n", 2);
}

/* Send a message that was due at this time. */
static void publish(struct publisher *publisher, int64_t due) {
    char *at = publisher->publication + publisher->head;
    *at++ = 'Z';
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[(uint64_t)due >> shift & 15];
    sum += (uint64_t)due;
    send_all(publisher->socket, publisher->publication, (size_t)publisher->size);
}

static void sleep_until(int64_t at) {
    struct timespec when = {at / 1000000000, at % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

static void *publish_all(void *began) {
    int64_t began_at = *(int64_t *)began;
    prctl(PR_SET_TIMERSLACK, 1UL); /* otherwise each wait is 50 us longer */
    if (rate == 0) {
        for (long sent = 0; sent < messages; sent++)
            publish(&publishers[sent % publisher_count], wall_ns());
        return NULL;
    }
    for (long sent = 0; sent < messages;) {
        int64_t due = began_at + (int64_t)((double)sent * 1e9 / (double)rate);
        if (due > wall_ns())
            sleep_until(due);
        for (long i = 0; i < together && sent < messages; i++, sent++)
            publish(&publishers[sent % publisher_count], due);
    }
    return NULL;
}

/* Note the waits of the messages whose stamps end in this data. */
static void hear(struct subscriber *subscriber, const char *data, const char *end, int64_t now) {
    while (data < end) {
        if (subscriber->digits < 0) { /* nothing else has a Z: no line, no frame, no header */
            if ((data = memchr(data, 'Z', (size_t)(end - data))) == NULL)
                return;
            data++;
            subscriber->digits = 0;
            subscriber->stamp = 0;
        }
        for (; data < end && subscriber->digits < STAMP - 1; data++, subscriber->digits++)
            subscriber->stamp =
                subscriber->stamp << 4 | (uint64_t)(*data <= '9' ? *data - '0' : *data - 'a' + 10);
        if (subscriber->digits == STAMP - 1) {
            int64_t wait = now - (int64_t)subscriber->stamp;
            if (subscriber->left-- == 0 || wait < 0)
                fail("a message came that was not published");
            waits[waited++] = wait_of(wait);
            subscriber->sum += subscriber->stamp;
            subscriber->digits = -1;
        }
    }
}

static void hear_all(void) {
    static char chunk[CHUNK];
    struct epoll_event events[256];
    int poll_fd = epoll_create1(0);
    for (long i = 0; i < subscriber_count; i++)
        watch(poll_fd, subscribers[i].socket, &subscribers[i]);
    while (waited < messages * subscriber_count) {
        int ready = epoll_wait(poll_fd, events, 256, WAIT_MS);
        if (ready <= 0)
            fail("no message for %d s; %ld came", WAIT_MS / 1000, waited);
        for (int i = 0; i < ready; i++) {
            struct subscriber *subscriber = events[i].data.ptr;
            ssize_t got = recv(subscriber->socket, chunk, CHUNK, 0);
            if (got <= 0)
                fail("the server closed a subscriber's connection");
            hear(subscriber, chunk, chunk + got, wall_ns());
        }
    }
    ended_at = wall_ns();
}

int main(int count, char **words) {
    if (count != 8)
        fail("paced PORT PUBLISHERS SUBSCRIBERS MESSAGES RATE TOGETHER SIZE");
    publisher_count = number_of(words[2], 1, CONNECTIONS_MAX);
    subscriber_count = number_of(words[3], 1, CONNECTIONS_MAX);
    messages = number_of(words[4], 1, 100000000);
    rate = number_of(words[5], 0, 10000000);
    together = number_of(words[6], 1, messages);
    size = number_of(words[7], STAMP, 1 << 20);
    publishers = calloc((size_t)publisher_count, sizeof *publishers);
    subscribers = calloc((size_t)subscriber_count, sizeof *subscribers);
    waits = malloc((size_t)(messages * subscriber_count) * sizeof *waits);
    if (!publishers || !subscribers || !waits)
        fail("not enough memory");
    for (long i = 0; i < subscriber_count; i++) {
        subscribers[i] = (struct subscriber){.left = messages, .digits = -1};
        subscribers[i].socket = connect_to(words[1], "SUB bench.> 1\r\nPING\r\n");
    }
    for (long i = 0; i < publisher_count; i++) {
        publishers[i].socket = connect_to(words[1], "");
        prepare(&publishers[i], i);
    }
    say_ready();
    await_line();
    pthread_t thread;
    int64_t began_at = wall_ns(), cpu = cpu_ns();
    if (pthread_create(&thread, NULL, publish_all, &began_at))
        fail("no thread");
    hear_all();
    pthread_join(thread, NULL);
    double seconds = (double)(ended_at - began_at) / 1e9, spent = cpu_since(cpu);
    for (long i = 0; i < subscriber_count; i++)
        if (subscribers[i].sum != sum)
            fail("a subscriber got other messages than were published");
    say_waits(seconds, spent, waits, waited);
    await_end();
}
