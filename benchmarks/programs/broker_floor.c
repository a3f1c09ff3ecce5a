/* The least that a broker's system calls can cost: broker_floor PORT READ_BYTES [FILE]

   A server that understands no more of NATS than a flood needs. What arrives is read in pieces of
   READ_BYTES, as the broker reads. For each message in it, one that is ready in memory is sent to
   every subscriber, all of a piece in one call. With FILE, as many bytes as the message's record
   has are copied into a window of 64 MiB, whose pages stay in memory; a thread writes each 4 MiB of
   it to FILE with O_DIRECT. It parses, numbers, matches and composes nothing.

   All messages of a run have the same subject and size, which the first PUB says. */
#include "program.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#define PEERS_MAX 64
#define WINDOW_BYTES (64L << 20)
#define PIECE_BYTES (4L << 20)
#define PIECES (WINDOW_BYTES / PIECE_BYTES)
#define RECORD_HEAD 56 /* docs/journal-format.md: the head of a record, which is padded to 8 */
#define LINE_BYTES 8192
#define OUT_BYTES (4L << 20)

struct peer {
    int socket, subscribed, publishes;
    long received; /* bytes since its first PUB */
    char line[LINE_BYTES];
    long line_size;
    char last[6];
};

static const char info[] = "INFO {\"server_id\":\"floor\",\"max_payload\":1048576}\r\n";
static struct peer peers[PEERS_MAX];
static int poll_fd, file = -1;
static char *data, *source, *out, *window;
static long message_in, record, message_out, out_size, read_size;
static long at, written; /* in the window: the next byte; in the file */
static sem_t filled, unused;

/* Write the pieces of the window to the file, in turn. */
static void *write_pieces(void *nothing) {
    for (long piece = 0;; piece = (piece + 1) % PIECES) {
        while (sem_wait(&filled))
            ;
        if (pwrite(file, window + piece * PIECE_BYTES, PIECE_BYTES, written) != PIECE_BYTES)
            fail("writing failed: %s", strerror(errno));
        written += PIECE_BYTES;
        sem_post(&unused);
    }
    return nothing;
}

static void *memory(long size) {
    int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    void *made = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (made == MAP_FAILED)
        fail("not enough memory");
    return made;
}

/* Make the window, a file beside FILE, with all of its pages in memory. */
static void open_journal(const char *path) {
    char beside[4096];
    pthread_t thread;
    snprintf(beside, sizeof beside, "%s.window", path);
    int made = open(beside, O_RDWR | O_CREAT | O_TRUNC, 0600);
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (made < 0 || file < 0 || posix_fallocate(made, 0, WINDOW_BYTES))
        fail("cannot make %s: %s", path, strerror(errno));
    window = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    if (window == MAP_FAILED)
        fail("cannot map %s: %s", beside, strerror(errno));
    memset(window, 1, WINDOW_BYTES);
    sem_init(&filled, 0, 0);
    sem_init(&unused, 0, PIECES - 1);
    if (pthread_create(&thread, NULL, write_pieces, NULL))
        fail("no thread");
}

/* Learn from the first PUB what messages are: how long, what is sent, and how much is kept. */
static void learn(const char *line, long size) {
    char subject[256];
    long payload;
    if (message_in)
        return;
    if (sscanf(line, "PUB %255s %ld\r\n", subject, &payload) != 2)
        fail("not a PUB: %.*s", (int)size, line);
    message_in = size + payload + 2;
    record = (RECORD_HEAD + (long)strlen(subject) + payload + 7) & ~7L;
    int head = snprintf(NULL, 0, "MSG %s 1 %ld\r\n", subject, payload);
    message_out = head + payload + 2;
    out_size = OUT_BYTES / message_out * message_out;
    for (char *to = out; to < out + out_size; to += message_out) {
        snprintf(to, (size_t)head + 1, "MSG %s 1 %ld\r\n", subject, payload);
        fill_payload(to + head, payload);
        memcpy(to + head + payload, "\r\n", 2);
    }
}

static void send_all(int socket, const char *from, long size) {
    while (size) {
        ssize_t sent = send(socket, from, (size_t)size, MSG_NOSIGNAL);
        if (sent < 0)
            fail("sending failed: %s", strerror(errno));
        from += sent;
        size -= sent;
    }
}

static void keep(long size) {
    while (size) {
        long left = PIECE_BYTES - at % PIECE_BYTES, now = size < left ? size : left;
        if (now > read_size)
            now = read_size;
        memcpy(window + at, source, (size_t)now);
        at = (at + now) % WINDOW_BYTES;
        size -= now;
        if (at % PIECE_BYTES == 0) {
            sem_post(&filled);
            while (sem_wait(&unused))
                ;
        }
    }
}

/* Do what a broker must do with so many messages. */
static void release(long count) {
    if (file >= 0)
        keep(count * record);
    for (struct peer *peer = peers; peer < peers + PEERS_MAX; peer++)
        for (long left = peer->subscribed ? count * message_out : 0; left;) {
            long now = left < out_size ? left : out_size;
            send_all(peer->socket, out, now);
            left -= now;
        }
}

/* Take a piece of a flood. It ends with a PING, which is no message. */
static void take_flood(struct peer *peer, const char *from, long size) {
    long before = peer->received / message_in;
    peer->received += size;
    if (size >= 6)
        memcpy(peer->last, from + size - 6, 6);
    else {
        memmove(peer->last, peer->last + size, (size_t)(6 - size));
        memcpy(peer->last + 6 - size, from, (size_t)size);
    }
    release(peer->received / message_in - before);
    if (peer->received % message_in == 6 && memcmp(peer->last, "PING\r\n", 6) == 0) {
        peer->received -= 6;
        send_all(peer->socket, "PONG\r\n", 6);
    }
}

/* Take lines, until the first PUB. */
static void take_lines(struct peer *peer, const char *from, long size) {
    while (size) {
        if (peer->line_size == LINE_BYTES)
            fail("a line is too long");
        peer->line[peer->line_size++] = *from++;
        size--;
        if (peer->line[peer->line_size - 1] != '\n')
            continue;
        long line_size = peer->line_size;
        peer->line_size = 0;
        if (memcmp(peer->line, "PING", 4) == 0)
            send_all(peer->socket, "PONG\r\n", 6);
        else if (memcmp(peer->line, "SUB ", 4) == 0)
            peer->subscribed = 1;
        else if (memcmp(peer->line, "PUB ", 4) == 0) {
            learn(peer->line, line_size);
            peer->publishes = 1;
            peer->received = line_size;
            if (size)
                take_flood(peer, from, size);
            return;
        }
    }
}

static void hear(struct peer *peer) {
    ssize_t size = recv(peer->socket, data, (size_t)read_size, 0);
    if (size <= 0) {
        close(peer->socket);
        memset(peer, 0, sizeof *peer);
    } else if (peer->publishes)
        take_flood(peer, data, size);
    else
        take_lines(peer, data, size);
}

static void welcome(int listener) {
    int yes = 1, made = accept(listener, NULL, NULL);
    struct peer *peer = peers;
    while (peer < peers + PEERS_MAX && peer->socket)
        peer++;
    if (made < 0 || peer == peers + PEERS_MAX)
        fail("cannot accept one more");
    peer->socket = made;
    set_option(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, made, &event);
    send_all(made, info, sizeof info - 1);
}

int main(int count, char **words) {
    if (count != 3 && count != 4)
        fail("broker_floor PORT READ_BYTES [FILE]");
    struct sockaddr_in address = address_of("127.0.0.1", words[1]);
    read_size = number_of(words[2], 512, 64 << 20);
    data = memory(read_size);
    source = memory(read_size);
    out = memory(OUT_BYTES);
    if (count == 4)
        open_journal(words[3]);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    set_option(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
        fail("cannot listen: %s", strerror(errno));
    poll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[PEERS_MAX];
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poll_fd, events, PEERS_MAX, -1);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr)
                hear(events[i].data.ptr);
            else
                welcome(listener);
    }
}
