/* Datagrams that lie one behind the other, to a connected socket, with few system calls.

   Linux takes up to 64 datagrams in one sendmmsg; and a run of datagrams of one size (the last
   may be shorter) as one large one that it cuts itself (UDP_SEGMENT, "GSO"): the way through
   the network stack is then walked once for all of them, which is most of what a datagram costs
   (the benchmark's feed-128 has both as floors). Elsewhere they are sent one by one. */
#ifndef SERIATIM_DATAGRAMS_H
#define SERIATIM_DATAGRAMS_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#ifdef __linux__

#include <netinet/in.h>
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define RUNS_MAX 64       /* messages in one sendmmsg */
#define SEGMENTS_MAX 64   /* datagrams in one message: the kernel's own limit */
#define RUN_BYTES 65000   /* and bytes: what one IP packet may hold, less headers */

/* How many datagrams from `first` on go as one message: 1, or a run of one size. */
static inline int datagrams_run(const long long *ends, int first, int count, long long start,
                                long long segment_max) {
    long long size = ends[first] - start, end = ends[first];
    int run = 1;
    if (size > segment_max || size == 0)
        return 1;
    while (first + run < count && run < SEGMENTS_MAX) {
        long long next = ends[first + run] - end;
        if (next > size || next == 0 || ends[first + run] - start > RUN_BYTES)
            break;
        end = ends[first + run++];
        if (next < size)
            break; /* only the last of a run may be shorter */
    }
    return run;
}

/* Send datagrams first..count-1; datagram i is base[ends[i-1]..ends[i]], the first one begins at
   `start`. Datagrams of at most `*segment_max` bytes may be sent in runs; it is lowered where
   the system refuses. Returns how many were sent; then `*error` is 0 or why the next was not. */
static inline int datagrams_send(int fd, const unsigned char *base, const long long *ends, int first,
                          int count, long long start, long long *segment_max, int *error) {
    struct mmsghdr messages[RUNS_MAX];
    struct iovec spans[RUNS_MAX];
    int runs[RUNS_MAX];
    union {
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr aligned;
    } controls[RUNS_MAX];
    int at = first;
    *error = 0;
    while (at < count) {
        int filled = 0, next = at;
        long long from = start;
        memset(messages, 0, sizeof messages);
        while (next < count && filled < RUNS_MAX) {
            int run = datagrams_run(ends, next, count, from, *segment_max);
            struct msghdr *message = &messages[filled].msg_hdr;
            long long end = ends[next + run - 1];
            spans[filled].iov_base = (void *)(base + from);
            spans[filled].iov_len = (size_t)(end - from);
            message->msg_iov = &spans[filled];
            message->msg_iovlen = 1;
            if (run > 1) {
                uint16_t size = (uint16_t)(ends[next] - from);
                message->msg_control = controls[filled].bytes;
                message->msg_controllen = sizeof controls[filled].bytes;
                struct cmsghdr *control = CMSG_FIRSTHDR(message);
                control->cmsg_level = IPPROTO_UDP;
                control->cmsg_type = UDP_SEGMENT;
                control->cmsg_len = CMSG_LEN(sizeof size);
                memcpy(CMSG_DATA(control), &size, sizeof size);
            }
            runs[filled++] = run;
            next += run;
            from = end;
        }
        int sent = sendmmsg(fd, messages, (unsigned int)filled, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            if (runs[0] > 1 && (errno == EINVAL || errno == EMSGSIZE)) {
                *segment_max = ends[at] - start - 1; /* it is beyond the route's MTU */
                continue;
            }
            if (runs[0] > 1 && (errno == EIO || errno == EOPNOTSUPP || errno == ENOPROTOOPT)) {
                *segment_max = 0; /* the device cannot do it at all */
                continue;
            }
            *error = errno;
            break;
        }
        for (int i = 0; i < sent; i++) {
            at += runs[i];
            start = ends[at - 1];
        }
    }
    return at - first;
}

#else

static inline int datagrams_send(int fd, const unsigned char *base, const long long *ends, int first,
                          int count, long long start, long long *segment_max, int *error) {
    int at = first;
    *error = 0;
    while (at < count) {
        if (send(fd, base + start, (size_t)(ends[at] - start), 0) < 0) {
            if (errno == EINTR)
                continue;
            *error = errno;
            break;
        }
        start = ends[at++];
    }
    return at - first;
}

#endif

/* Wait until the socket takes more, for at most so many milliseconds; whether it may. */
static inline int datagrams_wait(int fd, int wait_ms) {
    struct pollfd waiting = {.fd = fd, .events = POLLOUT};
    return poll(&waiting, 1, wait_ms) != 0; /* a signal is no reason to give up what waits */
}

#endif
