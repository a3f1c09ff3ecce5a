/* Datagrams from a socket, many with one system call.

   Linux gives up to SLOTS buffers in one recvmmsg, and, where the sender has sent a run of
   datagrams of one size as one large one (UDP_SEGMENT) or the card has joined them, the whole
   run in one buffer with the size of its parts (UDP_GRO): the way through the network stack is
   then walked once for all of them. Elsewhere they are received one by one. */
#ifndef SERIATIM_ARRIVALS_H
#define SERIATIM_ARRIVALS_H

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define ARRIVALS_SLOTS 32
#define ARRIVALS_SLOT_BYTES 65536 /* what one IP packet may hold, and a run as well */

/* Who sent it: address and port mixed to a number, which is not 0. */
static inline long long arrivals_source(const struct sockaddr_storage *name) {
    uint64_t mixed = 0, words[2] = {0, 0};
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)name;
        mixed = ((uint64_t)four->sin_addr.s_addr << 16) | four->sin_port;
    } else if (name->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)name;
        memcpy(words, &six->sin6_addr, sizeof words);
        mixed = (words[0] * 0x9E3779B97F4A7C15u) ^ (words[1] + six->sin6_port);
    }
    mixed *= 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 29;
    return (long long)(mixed >> 1 | 1);
}

#ifdef __linux__

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_RXQ_OVFL
#define SO_RXQ_OVFL 40
#endif

/* Fill slots of `store`; how many, or -1 and `*error`. Of each: its bytes, the size of its parts
   (0: it is one datagram) and who sent it. `*drops` is what the socket has dropped so far. */
static inline int arrivals_receive(int fd, unsigned char *store, int *sizes, int *parts,
                                   long long *sources, unsigned int *drops, int *error) {
    struct mmsghdr messages[ARRIVALS_SLOTS];
    struct iovec spans[ARRIVALS_SLOTS];
    struct sockaddr_storage names[ARRIVALS_SLOTS];
    union {
        char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t))];
        struct cmsghdr aligned;
    } controls[ARRIVALS_SLOTS];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < ARRIVALS_SLOTS; i++) {
        struct msghdr *message = &messages[i].msg_hdr;
        spans[i].iov_base = store + (size_t)i * ARRIVALS_SLOT_BYTES;
        spans[i].iov_len = ARRIVALS_SLOT_BYTES;
        message->msg_iov = &spans[i];
        message->msg_iovlen = 1;
        message->msg_name = &names[i];
        message->msg_namelen = sizeof names[i];
        message->msg_control = controls[i].bytes;
        message->msg_controllen = sizeof controls[i].bytes;
    }
    int got;
    do
        got = recvmmsg(fd, messages, ARRIVALS_SLOTS, MSG_DONTWAIT, NULL);
    while (got < 0 && errno == EINTR);
    *error = got < 0 ? errno : 0;
    for (int i = 0; i < got; i++) {
        struct msghdr *message = &messages[i].msg_hdr;
        sizes[i] = (int)messages[i].msg_len;
        parts[i] = 0;
        sources[i] = arrivals_source(&names[i]);
        struct cmsghdr *control = CMSG_FIRSTHDR(message);
        for (; control != NULL; control = CMSG_NXTHDR(message, control)) {
            if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == UDP_GRO)
                memcpy(&parts[i], CMSG_DATA(control), sizeof parts[i]);
            else if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SO_RXQ_OVFL)
                memcpy(drops, CMSG_DATA(control), sizeof *drops);
        }
    }
    return got;
}

#else

static inline int arrivals_receive(int fd, unsigned char *store, int *sizes, int *parts,
                                   long long *sources, unsigned int *drops, int *error) {
    int at = 0;
    (void)drops;
    *error = 0;
    while (at < ARRIVALS_SLOTS) {
        struct sockaddr_storage name;
        socklen_t length = sizeof name;
        ssize_t size = recvfrom(fd, store + (size_t)at * ARRIVALS_SLOT_BYTES, ARRIVALS_SLOT_BYTES,
                                MSG_DONTWAIT, (struct sockaddr *)&name, &length);
        if (size < 0) {
            if (errno == EINTR)
                continue;
            *error = errno;
            return at ? at : -1;
        }
        sizes[at] = (int)size;
        parts[at] = 0;
        sources[at++] = arrivals_source(&name);
    }
    return at;
}

#endif
#endif
