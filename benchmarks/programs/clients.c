/* Clients of cquencer's port: clients PORT CONNECTIONS MESSAGES SIZE WINDOW recv|netstring

   Each connection has no more than WINDOW messages unanswered. The answers are netstrings of
   numbers: each number from 1 to MESSAGES must come once, and to each connection in rising order.
   One thread, so that a server which needs less CPU than this one is not measured by its rate. */
#include "program.h"

#define CONNECTIONS_MAX 1000
#define CHUNK (64 * 1024)

struct client {
    int socket;
    int writable_wanted;
    long unsent;  /* messages not begun */
    long awaited; /* answers */
    long owed;    /* bytes of messages that are begun and not sent */
    long phase;   /* where in a message the next byte to send is */
    long last;    /* the number answered last */
    long digits, length, number; /* of the answer at hand: seen, announced, so far */
    int state;
    int64_t sent_at;
};

enum { LENGTH, NUMBER, COMMA };

static char *block, chunk[CHUNK];
static long one_size, block_size, messages, window, answered;
static unsigned char *seen;
static uint32_t *waits; /* nanoseconds, where the window is one */
static int poll_fd;

static void connect_to(struct client *client, const char *port) {
    struct sockaddr_in address = address_of("127.0.0.1", port);
    int yes = 1;
    client->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (client->socket < 0 || connect(client->socket, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect: %s", strerror(errno));
    set_option(client->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(client->socket, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, client->socket, &event))
        fail("epoll_ctl: %s", strerror(errno));
}

/* Send what is owed, as far as the socket takes it. */
static void send_owed(struct client *client) {
    while (client->owed) {
        long size = block_size - client->phase;
        if (size > client->owed)
            size = client->owed;
        ssize_t sent = send(client->socket, block + client->phase, (size_t)size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            fail("sending failed: %s", strerror(errno));
        if (sent < 0)
            break;
        client->owed -= sent;
        client->phase = (client->phase + sent) % one_size;
    }
    if (client->writable_wanted != (client->owed > 0)) {
        client->writable_wanted = client->owed > 0;
        struct epoll_event event = {.data.ptr = client};
        event.events = EPOLLIN | (client->writable_wanted ? EPOLLOUT : 0);
        epoll_ctl(poll_fd, EPOLL_CTL_MOD, client->socket, &event);
    }
}

/* Send so many messages more, or what is left of its share. */
static void publish(struct client *client, long count) {
    if (count > client->unsent)
        count = client->unsent;
    client->unsent -= count;
    client->awaited += count;
    client->owed += count * one_size;
    if (window == 1)
        client->sent_at = wall_ns();
    send_owed(client);
}

static void take_number(struct client *client) {
    long number = client->number;
    if (client->awaited == 0 || number < 1 || number > messages || seen[number])
        fail("the answer %ld came, with %ld of %ld answered", number, answered, messages);
    if (number <= client->last)
        fail("the answer %ld came after %ld", number, client->last);
    seen[number] = 1;
    client->last = number;
    client->awaited--;
    if (waits)
        waits[answered] = (uint32_t)(wall_ns() - client->sent_at);
    answered++;
}

/* Take the answers that end in this data; how many. */
static long take_answers(struct client *client, const char *data, long size) {
    long count = 0;
    for (long at = 0; at < size; at++) {
        int digit = data[at] - '0';
        int is_digit = digit >= 0 && digit <= 9;
        if (client->state == LENGTH && is_digit) {
            client->length = 10 * client->length + digit;
        } else if (client->state == LENGTH && data[at] == ':' && client->length < 19) {
            client->state = client->length ? NUMBER : COMMA;
        } else if (client->state == NUMBER && is_digit) {
            client->number = 10 * client->number + digit;
            if (++client->digits == client->length)
                client->state = COMMA;
        } else if (client->state == COMMA && data[at] == ',') {
            take_number(client);
            client->digits = client->length = client->number = 0;
            client->state = LENGTH;
            count++;
        } else {
            fail("expected the netstring of a number, got '%.*s'", (int)(size - at), data + at);
        }
    }
    return count;
}

static void hear(struct client *client) {
    ssize_t size = recv(client->socket, chunk, CHUNK, 0);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size < 0)
        fail("receiving failed: %s", strerror(errno));
    if (size == 0)
        fail("the server closed the connection");
    long count = take_answers(client, chunk, size);
    if (count && client->unsent)
        publish(client, count);
}

static void run(void) {
    struct epoll_event events[CONNECTIONS_MAX];
    while (answered < messages) {
        int count = epoll_wait(poll_fd, events, CONNECTIONS_MAX, WAIT_MS);
        if (count == 0)
            fail("no answer for %d s, %ld of %ld came", WAIT_MS / 1000, answered, messages);
        for (int i = 0; i < count; i++) {
            struct client *client = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                send_owed(client);
            if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
                hear(client);
        }
    }
}

static int compare(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **words) {
    if (count != 7)
        fail("clients PORT CONNECTIONS MESSAGES SIZE WINDOW recv|netstring");
    long connections = number_of(words[2], 1, CONNECTIONS_MAX);
    messages = number_of(words[3], connections, 1000000000);
    long size = number_of(words[4], 2, 1 << 20);
    window = number_of(words[5], 1, 1000000);
    int framed = strcmp(words[6], "netstring") == 0;
    if (!framed && (strcmp(words[6], "recv") || window != 1))
        fail("%s: recv, with a window of 1, or netstring", words[6]);

    block = malloc((size_t)(window * (size + 16)));
    seen = calloc((size_t)messages + 1, 1);
    waits = window == 1 ? calloc((size_t)messages, sizeof *waits) : NULL;
    struct client *clients = calloc((size_t)connections, sizeof *clients);
    if (!block || !seen || !clients || (window == 1 && !waits))
        fail("not enough memory");
    int head = framed ? sprintf(block, "%ld:", size) : 0;
    fill_payload(block + head, size);
    one_size = head + size;
    if (framed)
        block[one_size++] = ',';
    block_size = window * one_size;
    for (long i = 1; i < window; i++)
        memcpy(block + i * one_size, block, (size_t)one_size);

    poll_fd = epoll_create1(0);
    for (long i = 0; i < connections; i++) {
        clients[i].unsent = messages / connections + (i < messages % connections);
        connect_to(&clients[i], words[1]);
    }
    say_ready();
    await_line();
    int64_t began_at = wall_ns(), cpu = cpu_ns();
    for (long i = 0; i < connections; i++)
        publish(&clients[i], window);
    run();
    double seconds = seconds_since(began_at), cpu_seconds = cpu_since(cpu), p50 = 0, p99 = 0;
    if (waits) {
        qsort(waits, (size_t)messages, sizeof *waits, compare);
        p50 = waits[messages / 2] / 1e3;
        p99 = waits[messages * 99 / 100] / 1e3;
    }
    printf("seconds=%.9f cpu=%.9f p50=%.3f p99=%.3f\n", seconds, cpu_seconds, p50, p99);
    await_end();
}
