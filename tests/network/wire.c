/* A wire between two interfaces that loses, doubles and reorders what passes.

   wire SEED LEFT RIGHT         needs CAP_NET_RAW; both interfaces are its own, without addresses

Commands come by lines on stdin, each answered by a line of counters; the end of stdin ends it:

   WAY KIND WHAT RATE [WHAT RATE]...     WAY   right, left: where frames go to; or both
                                         KIND  udp, tcp
                                         WHAT  loss, duplicate, reorder, burst: a probability
                                               length: frames that a burst takes
   count                                 nothing but the answer

The answer: `WAY KIND seen N lost N duplicated N reordered N`, for each way and kind, then
`passed N failed N overrun N`: frames of other kinds; those that an interface did not take; those
that came faster than they were read. What is neither UDP nor TCP (ARP, ICMP, IGMP, MLD) is
never harmed.

For a seed the n-th frame of a kind and way has always the same fate: four draws of splitmix64 a
frame, in the order loss, duplicate, reorder, burst; the generator of way w (right 0, left 1) and
kind k (udp 0, tcp 1) starts at SEED * 4 + w * 2 + k. A reordered frame waits until some later
ones have passed (1 .. 16, by its draw), or 5 ms.

Senders must have segmentation and checksums off: frames are taken as they stand. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 256, FRAME_MAX = 2048, HELD_MAX = 256, DEPTH = 16, HOLD_NS = 5000000 };
enum { LOSS, DUPLICATE, REORDER, BURST, RATES };
enum { UDP, TCP, KINDS };
static const char *const RATE_NAMES[RATES] = {"loss", "duplicate", "reorder", "burst"};
static const char *const KIND_NAMES[KINDS] = {"udp", "tcp"};
static const char *const WAY_NAMES[2] = {"right", "left"};

struct kind {
    uint64_t state;
    double rate[RATES];
    uint64_t length, burst_left;
    uint64_t seen, lost, duplicated, reordered;
};

struct held {
    int later;          /* frames that are still to pass before it */
    int64_t deadline;
    size_t size;
    uint8_t frame[FRAME_MAX];
};

struct way {
    int from, to;
    struct kind kinds[KINDS];
    struct held places[HELD_MAX], *idle[HELD_MAX], *waiting[HELD_MAX], *leaving[HELD_MAX];
    int idle_count, waiting_count, leaving_count;
    uint64_t passed, failed;
};

static struct way ways[2];
static uint64_t overrun;
static uint8_t frames[BATCH][FRAME_MAX];
static struct mmsghdr incoming[BATCH], outgoing[2 * BATCH + HELD_MAX];
static struct iovec in_parts[BATCH], out_parts[2 * BATCH + HELD_MAX];
static unsigned out_count;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static uint64_t draw(struct kind *kind)
{
    uint64_t z = (kind->state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

static int hit(uint64_t drawn, double rate)
{
    return (double)(drawn >> 11) * 0x1p-53 < rate;
}

/* An interface's frames, all of them, without those that we send there ourselves. */
static int open_interface(const char *name)
{
    int one = 1, room = 128 << 20;
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0)
        fail("socket");
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = if_nametoindex(name)};
    struct packet_mreq all = {.mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
    if (address.sll_ifindex == 0)
        fail(name);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) ||
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one) ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) ||
        bind(fd, (struct sockaddr *)&address, sizeof address))
        fail(name);
    return fd;
}

/* UDP, TCP, or KINDS for the rest. Fragments are of the kind of their datagram. */
static int kind_of(const uint8_t *frame, size_t size)
{
    int type = size < 14 ? 0 : frame[12] << 8 | frame[13], protocol = 0;
    if (type == ETHERTYPE_IP && size >= 34)
        protocol = frame[23];
    else if (type == ETHERTYPE_IPV6 && size >= 54)
        protocol = frame[20] == IPPROTO_FRAGMENT && size >= 62 ? frame[54] : frame[20];
    return protocol == IPPROTO_UDP ? UDP : protocol == IPPROTO_TCP ? TCP : KINDS;
}

static void put(void *frame, size_t size)
{
    out_parts[out_count] = (struct iovec){frame, size};
    outgoing[out_count].msg_hdr.msg_iov = &out_parts[out_count];
    outgoing[out_count++].msg_hdr.msg_iovlen = 1;
}

static void send_all(struct way *way)
{
    for (unsigned sent = 0; sent < out_count;) {
        int n = sendmmsg(way->to, outgoing + sent, out_count - sent, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)              /* the interface is down: the frame is lost as on a real one */
            way->failed++;
        sent += n < 0 ? 1 : n;
    }
    out_count = 0;
    while (way->leaving_count)
        way->idle[way->idle_count++] = way->leaving[--way->leaving_count];
}

/* Those that have waited long enough go out; their places are idle again once they are sent. */
static void release(struct way *way, int passed, int64_t now)
{
    int kept = 0, waiting = way->waiting_count;
    for (int i = 0; i < waiting; i++) {
        struct held *held = way->waiting[i];
        held->later -= passed;
        if (held->later > 0 && held->deadline > now) {
            way->waiting[kept++] = held;
            continue;
        }
        put(held->frame, held->size);
        way->leaving[way->leaving_count++] = held;
    }
    way->waiting_count = kept;
}

static int hold(struct way *way, const uint8_t *frame, size_t size, uint64_t drawn, int64_t now)
{
    if (way->idle_count == 0)
        return 0;
    struct held *held = way->idle[--way->idle_count];
    held->later = 1 + drawn % DEPTH;    /* by low bits: the rate took the high ones */
    held->deadline = now + HOLD_NS;
    held->size = size;
    memcpy(held->frame, frame, size);
    way->waiting[way->waiting_count++] = held;
    return 1;
}

static void judge(struct way *way, uint8_t *frame, size_t size, int64_t now)
{
    int which = kind_of(frame, size);
    if (which == KINDS) {
        way->passed++;
        put(frame, size);
        release(way, 1, now);
        return;
    }
    struct kind *kind = &way->kinds[which];
    uint64_t drawn[RATES];
    int fate[RATES];
    for (int i = 0; i < RATES; i++) {
        drawn[i] = draw(kind);
        fate[i] = hit(drawn[i], kind->rate[i]);
    }
    kind->seen++;
    if (fate[BURST] && kind->burst_left == 0)
        kind->burst_left = kind->length;
    if (kind->burst_left || fate[LOSS]) {
        kind->burst_left -= kind->burst_left > 0;
        kind->lost++;
        return;
    }
    if (fate[DUPLICATE]) {
        kind->duplicated++;
        put(frame, size);
    }
    if (fate[REORDER] && hold(way, frame, size, drawn[REORDER], now)) {
        kind->reordered++;
        return;
    }
    put(frame, size);
    release(way, 1, now);
}

static void carry(struct way *way)
{
    int n = recvmmsg(way->from, incoming, BATCH, MSG_DONTWAIT, NULL);
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENETDOWN)
        fail("recvmmsg");
    int64_t now = now_ns();
    for (int i = 0; i < n; i++) {
        if (incoming[i].msg_hdr.msg_flags & MSG_TRUNC) {
            fprintf(stderr, "a frame longer than %d bytes: is segmentation off?\n", FRAME_MAX);
            exit(1);
        }
        judge(way, frames[i], incoming[i].msg_len, now);
        if (out_count > 2 * BATCH - 2)      /* there is room for all that is held, too */
            send_all(way);
    }
    send_all(way);
}

static void answer(void)
{
    for (int w = 0; w < 2; w++) {
        struct tpacket_stats stats = {0};
        socklen_t size = sizeof stats;
        getsockopt(ways[w].from, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
        overrun += stats.tp_drops;
        for (int k = 0; k < KINDS; k++) {
            const struct kind *kind = &ways[w].kinds[k];
            printf("%s %s seen %lu lost %lu duplicated %lu reordered %lu ", WAY_NAMES[w],
                   KIND_NAMES[k], kind->seen, kind->lost, kind->duplicated, kind->reordered);
        }
    }
    printf("passed %lu failed %lu overrun %lu\n", ways[0].passed + ways[1].passed,
           ways[0].failed + ways[1].failed, overrun);
    fflush(stdout);
}

static int set_one(struct kind *kind, const char *what, const char *value)
{
    char *end;
    double number = strtod(value, &end);
    if (*end || end == value || !(number >= 0))
        return 0;
    if (strcmp(what, "length") == 0) {
        kind->length = (uint64_t)number;
        return 1;
    }
    for (int i = 0; i < RATES; i++)
        if (strcmp(what, RATE_NAMES[i]) == 0) {
            kind->rate[i] = number;
            return number <= 1;
        }
    return 0;
}

/* One line of stdin. What it does not know ends the wire: a test must not believe it was set. */
static void obey(char *line)
{
    char *way = strtok(line, " "), *kind = strtok(NULL, " "), *what, *value;
    int done = way && strcmp(way, "count") == 0 && !kind;
    while (kind && (what = strtok(NULL, " "))) {
        if (!(value = strtok(NULL, " ")))
            done = 0;
        for (int w = 0; value && w < 2; w++)
            for (int k = 0; k < KINDS; k++)
                if (strcmp(kind, KIND_NAMES[k]) == 0 &&
                    (strcmp(way, "both") == 0 || strcmp(way, WAY_NAMES[w]) == 0))
                    done = set_one(&ways[w].kinds[k], what, value);
        if (!done)
            break;
    }
    if (!done) {
        fprintf(stderr, "not a command: %s\n", line);
        exit(2);
    }
    answer();
}

static void read_commands(void)
{
    static char text[4096];
    static size_t held;
    ssize_t n = read(0, text + held, sizeof text - 1 - held);
    if (n <= 0) {
        answer();
        exit(0);
    }
    held += (size_t)n;
    for (char *end; (end = memchr(text, '\n', held)); ) {
        size_t size = (size_t)(end - text) + 1;
        *end = 0;
        obey(text);
        memmove(text, text + size, held -= size);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: wire SEED LEFT RIGHT\n");
        return 2;
    }
    for (int i = 0; i < BATCH; i++) {
        in_parts[i] = (struct iovec){frames[i], FRAME_MAX};
        incoming[i].msg_hdr = (struct msghdr){.msg_iov = &in_parts[i], .msg_iovlen = 1};
    }
    uint64_t seed = strtoull(argv[1], NULL, 10);
    int left = open_interface(argv[2]), right = open_interface(argv[3]);
    ways[0].from = ways[1].to = left;
    ways[0].to = ways[1].from = right;
    for (int w = 0; w < 2; w++) {
        for (struct held *held = ways[w].places; held < ways[w].places + HELD_MAX; held++)
            ways[w].idle[ways[w].idle_count++] = held;
        for (int k = 0; k < KINDS; k++)
            ways[w].kinds[k].state = seed * 4 + (uint64_t)(w * 2 + k);
    }
    struct pollfd polled[3] = {{0, POLLIN, 0}, {left, POLLIN, 0}, {right, POLLIN, 0}};
    answer();
    for (;;) {
        if (poll(polled, 3, ways[0].waiting_count + ways[1].waiting_count ? 1 : -1) < 0 && errno != EINTR)
            fail("poll");
        for (int w = 0; w < 2; w++) {
            if (polled[1 + w].revents)
                carry(&ways[w]);
            if (ways[w].waiting_count)
                release(&ways[w], 0, now_ns());
            send_all(&ways[w]);
        }
        if (polled[0].revents)
            read_commands();
    }
}
