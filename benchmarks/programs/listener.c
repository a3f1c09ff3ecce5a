/* A member of a multicast group that counts: listener GROUP PORT

   Datagrams hold frames of netstrings, one or more. Of each frame the number is read; what is
   missing between two numbers was lost on the way, mostly for want of room in this socket, and is
   counted. After a line on the input, and once nothing more is in the socket, it says its counts. */
#include "program.h"

#define BATCH 64
#define DATAGRAM_MAX 65536
#define BUFFER_BYTES (64 << 20) /* asked for; the system may grant less */

static long datagrams, frames, missing, first, last;

/* Read a decimal number and the byte behind it, and return what follows; NULL if it is not one. */
static const char *take_decimal(const char *at, const char *end, char mark, long *number) {
    const char *from = at;
    for (*number = 0; at < end && *at >= '0' && *at <= '9' && at - from < 19; at++)
        *number = 10 * *number + *at - '0';
    return at > from && at < end && *at == mark ? at + 1 : NULL;
}

/* Take `L:<n>:<number>,<m>:<payload>,,` and return what follows it. */
static const char *take_frame(const char *at, const char *end) {
    long length, digits, number, size;
    const char *inner = take_decimal(at, end, ':', &length);
    const char *after = inner && length < end - inner ? inner + length + 1 : NULL;
    const char *next = after ? take_decimal(inner, after, ':', &digits) : NULL;
    const char *comma = next;
    next = next ? take_decimal(next, after, ',', &number) : NULL;
    if (next && next - comma != digits + 1)
        next = NULL;
    next = next ? take_decimal(next, after, ':', &size) : NULL;
    if (!next || size != after - next - 2 || after[-1] != ',' || after[-2] != ',')
        fail("a datagram with '%.*s' is not frames", (int)(end - at < 60 ? end - at : 60), at);
    if (frames++ == 0)
        first = number;
    else if (number <= last)
        fail("the number %ld came after %ld", number, last);
    else
        missing += number - last - 1;
    last = number;
    return after;
}

static void take_datagrams(int socket, struct mmsghdr *messages) {
    for (;;) {
        int count = recvmmsg(socket, messages, BATCH, MSG_DONTWAIT, NULL);
        if (count < 0 && errno != EAGAIN)
            fail("receiving failed: %s", strerror(errno));
        for (int i = 0; i < count; i++) {
            const char *at = messages[i].msg_hdr.msg_iov->iov_base, *end = at + messages[i].msg_len;
            while (at < end)
                at = take_frame(at, end);
        }
        if (count > 0)
            datagrams += count;
        if (count < BATCH)
            return;
    }
}

static int member_of(const char *group, const char *port) {
    int made = socket(AF_INET, SOCK_DGRAM, 0), yes = 1, no = 0, size = BUFFER_BYTES;
    struct sockaddr_in address = address_of(group, port);
    struct ip_mreq membership = {address.sin_addr, {htonl(INADDR_LOOPBACK)}};
    set_option(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
        set_option(made, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    set_option(made, IPPROTO_IP, IP_MULTICAST_ALL, &no, sizeof no);
    set_option(made, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership);
    if (bind(made, (struct sockaddr *)&address, sizeof address))
        fail("cannot bind to %s:%s: %s", group, port, strerror(errno));
    return made;
}

int main(int count, char **words) {
    if (count != 3)
        fail("listener GROUP PORT");
    int socket = member_of(words[1], words[2]);
    struct mmsghdr messages[BATCH] = {0};
    struct iovec spans[BATCH];
    for (int i = 0; i < BATCH; i++) {
        spans[i] = (struct iovec){malloc(DATAGRAM_MAX), DATAGRAM_MAX};
        messages[i].msg_hdr.msg_iov = &spans[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    struct pollfd waits[] = {{socket, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    say_ready();
    while (poll(waits, 2, -1) > 0 && waits[1].revents == 0)
        take_datagrams(socket, messages);
    take_datagrams(socket, messages);
    double cpu = cpu_since(0);
    await_line();
    printf("datagrams=%ld messages=%ld missing=%ld first=%ld last=%ld cpu=%.9f\n", datagrams,
           frames, missing, first, last, cpu);
    await_end();
}
