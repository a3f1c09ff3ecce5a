/* Clients that ask and wait: requests PORT CLIENTS REQUESTS SIZE

   One service answers, with as many bytes as it was asked with. Each of CLIENTS connections always
   has one request under way, of SIZE bytes, with an inbox as client libraries make them: one
   subscription for all answers, and a subject of its own for each. After REQUESTS answers in all it
   ends. An answer to anything but the one request is an error. All waits are kept. */
#include "nats.h"

#define CLIENTS_MAX 10000
#define SIZE_MAX_BYTES 32768
#define BUFFER (4 * SIZE_MAX_BYTES)

struct peer {
    int socket;
    long number, asked; /* of a client; the service has no number */
    int64_t asked_at;
    size_t have;
    char data[BUFFER];
};

static struct peer service, *clients;
static char payload[SIZE_MAX_BYTES];
static long requests, sent, answered, size;
static uint32_t *waits;

/* Append a publication to `at`, and return its end. */
static char *publication(char *at, const char *subject, int length, const char *reply) {
    at += sprintf(at, "PUB %.*s %s%ld\r\n", length, subject, reply, size);
    memcpy(at, payload, (size_t)size);
    memcpy(at + size, "\r\n", 2);
    return at + size + 2;
}

static void ask(struct peer *client) {
    char data[SIZE_MAX_BYTES + 128], reply[64];
    if (sent++ >= requests)
        return;
    sprintf(reply, "_INBOX.%ld.%ld ", client->number, ++client->asked);
    char *end = publication(data, "service", 7, reply);
    client->asked_at = wall_ns();
    send_all(client->socket, data, (size_t)(end - data));
}

static void take_answer(struct peer *client, const char *line) {
    long number = 0, asked = 0;
    if (sscanf(line, "%*s _INBOX.%ld.%ld ", &number, &asked) != 2 || number != client->number ||
        asked != client->asked)
        fail("client %ld waits for answer %ld and gets %.40s", client->number, client->asked, line);
    waits[answered++] = wait_of(wall_ns() - client->asked_at);
    ask(client);
}

/* Append the answer to a request. */
static char *answer(char *out, const char *line) {
    int from = 0, to = 0;
    sscanf(line, "%*s %*s %*s %n%*s%n", &from, &to);
    if (strncmp(line + from, "_INBOX.", 7))
        fail("the service was not asked: %.40s", line);
    return publication(out, line + from, to - from, "");
}

/* Take the whole messages that have come. The service answers those of one read in one piece. */
static void hear(struct peer *peer) {
    static char out[BUFFER * 4];
    char *at = peer->data, *out_end = out, *line_end;
    ssize_t got = recv(peer->socket, peer->data + peer->have, BUFFER - 1 - peer->have, 0);
    if (got <= 0)
        fail("the server closed a connection");
    peer->have += (size_t)got;
    char *end = peer->data + peer->have;
    *end = 0;
    while ((line_end = memmem(at, (size_t)(end - at), "\r\n", 2)) != NULL) {
        char *next = line_end + 2, *last = line_end;
        if (*at == '-')
            fail("the server said %.*s", (int)(line_end - at), at);
        if (*at == 'M' || *at == 'H') {
            while (last[-1] != ' ')
                last--;
            next += atol(last) + 2;
            if (next > end)
                break;
            *line_end = 0;
            if (peer != &service)
                take_answer(peer, at);
            else
                out_end = answer(out_end, at);
        } else if (!strncmp(at, "PING", 4))
            send_all(peer->socket, "PONG\r\n", 6);
        at = next;
    }
    peer->have = (size_t)(end - at);
    memmove(peer->data, at, peer->have);
    if (out_end != out)
        send_all(peer->socket, out, (size_t)(out_end - out));
}

int main(int count, char **words) {
    struct epoll_event events[256];
    char line[64];
    if (count != 5)
        fail("requests PORT CLIENTS REQUESTS SIZE");
    long total = number_of(words[2], 1, CLIENTS_MAX);
    requests = number_of(words[3], 1, 100000000);
    size = number_of(words[4], 0, SIZE_MAX_BYTES);
    fill_payload(payload, size);
    clients = calloc((size_t)total, sizeof *clients);
    waits = malloc((size_t)requests * sizeof *waits);
    if (!clients || !waits)
        fail("not enough memory");
    int poll_fd = epoll_create1(0);
    service.socket = connect_to(words[1], "SUB service 1\r\nPING\r\n");
    watch(poll_fd, service.socket, &service);
    for (long i = 0; i < total; i++) {
        clients[i].number = i;
        snprintf(line, sizeof line, "SUB _INBOX.%ld.* 1\r\nPING\r\n", i);
        clients[i].socket = connect_to(words[1], line);
        watch(poll_fd, clients[i].socket, &clients[i]);
    }
    say_ready();
    await_line();
    int64_t began_at = wall_ns(), cpu = cpu_ns();
    for (long i = 0; i < total; i++)
        ask(&clients[i]);
    while (answered < requests) {
        int ready = epoll_wait(poll_fd, events, 256, WAIT_MS);
        if (ready <= 0)
            fail("no answer for %d s; %ld came", WAIT_MS / 1000, answered);
        for (int i = 0; i < ready; i++)
            hear(events[i].data.ptr);
    }
    double seconds = seconds_since(began_at);
    say_waits(seconds, cpu_since(cpu), waits, answered);
    await_end();
}
