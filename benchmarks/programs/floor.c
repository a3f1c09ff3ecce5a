/* The least that multicast can cost: floor GROUP PORT MESSAGES SIZE SEGMENTS PACKED RATE

   Sends frames of SIZE bytes of payload that are ready in memory, by sendmmsg and nothing else: 64
   datagrams in a call, of PACKED frames each. With SEGMENTS above 1 so many datagrams are handed
   over as one, which the system cuts (UDP_SEGMENT). RATE is datagrams per second, 0 without limit.
   Numbers begin with 10^9, so that all have ten digits and all frames one size. */
#include "program.h"

#include <netinet/udp.h>

#define CALL_MAX 64
#define DIGITS 10
#define UDP_BYTES_MAX 65507

static char *store, *numbers[CALL_MAX * CALL_MAX * 64];
static struct mmsghdr messages[CALL_MAX];
static struct iovec spans[CALL_MAX];

/* Add one to a number in decimal digits. */
static void count_up(char *number) {
    for (int i = DIGITS - 1; number[i]++ == '9'; i--)
        number[i] = '0';
}

static int connected_to(const char *group, const char *port) {
    int made = socket(AF_INET, SOCK_DGRAM, 0), size = 4 << 20;
    struct sockaddr_in address = address_of(group, port);
    struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
    set_option(made, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    set_option(made, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof loopback);
    if (connect(made, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect to %s:%s: %s", group, port, strerror(errno));
    return made;
}

static void send_all(int socket, int count) {
    for (int at = 0; at < count;) {
        int sent = sendmmsg(socket, messages + at, (unsigned)(count - at), 0);
        if (sent < 0)
            fail("sending failed: %s", strerror(errno));
        at += sent;
    }
}

int main(int count, char **words) {
    if (count != 8)
        fail("floor GROUP PORT MESSAGES SIZE SEGMENTS PACKED RATE");
    int socket = connected_to(words[1], words[2]);
    long total = number_of(words[3], 1, 1000000000), size = number_of(words[4], 0, 60000);
    long segments = number_of(words[5], 1, 64), packed = number_of(words[6], 1, 64);
    long rate = number_of(words[7], 0, 10000000);

    char head[64], number[] = "1000000000";
    int inner = snprintf(NULL, 0, "%d:%s,%ld:", DIGITS, number, size) + (int)size + 1;
    int head_size = snprintf(head, sizeof head, "%d:%d:%s,%ld:", inner, DIGITS, number, size);
    long number_at = strstr(head, number) - head;
    long frame = head_size + size + 2, datagram = packed * frame, message = segments * datagram;
    if (message > UDP_BYTES_MAX)
        fail("%ld bytes are more than one message may have", message);
    if ((store = malloc((size_t)(CALL_MAX * message))) == NULL)
        fail("not enough memory");
    for (long i = 0; i < CALL_MAX * segments * packed; i++) {
        char *at = store + i * frame;
        memcpy(at, head, (size_t)head_size);
        fill_payload(at + head_size, size);
        memcpy(at + head_size + size, ",,", 2);
        numbers[i] = at + number_at;
    }
    for (int i = 0; i < CALL_MAX; i++) {
        spans[i] = (struct iovec){store + i * message, (size_t)message};
        messages[i].msg_hdr.msg_iov = &spans[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    int cut = (int)datagram;
    if (segments > 1)
        set_option(socket, IPPROTO_UDP, UDP_SEGMENT, &cut, sizeof cut);

    say_ready();
    await_line();
    int64_t began_at = wall_ns(), cpu = cpu_ns();
    int calls = rate ? 1 : CALL_MAX;
    long sent = 0, per_call = calls * segments * packed;
    while (sent < total) {
        long now = total - sent < per_call ? total - sent : per_call;
        long whole = (now + segments * packed - 1) / (segments * packed);
        for (long i = 0; i < now; i++) {
            memcpy(numbers[i], number, DIGITS);
            count_up(number);
        }
        spans[whole - 1].iov_len = (size_t)((now - (whole - 1) * segments * packed) * frame);
        send_all(socket, (int)whole);
        spans[whole - 1].iov_len = (size_t)message;
        sent += now;
        while (rate && seconds_since(began_at) * (double)(rate * packed) < (double)sent)
            poll(NULL, 0, 1);
    }
    printf("seconds=%.9f cpu=%.9f\n", seconds_since(began_at), cpu_since(cpu));
    await_end();
}
