/* What the programs of the benchmark share: errors, clocks, and the talk with who started them.

   A program says `ready`, waits for a line, works, and says in one line of `name=figure` words what
   it did. It ends when its input does: until then its CPU time can be read from outside. */
#ifndef BENCHMARK_PROGRAM_H
#define BENCHMARK_PROGRAM_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 15000 /* as long as the other clients of the benchmark wait */

/* Say in one line what went wrong, and end. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char *format, ...) {
    va_list words;
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
    exit(1);
}

static inline int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline int64_t wall_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline int64_t cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
static inline double seconds_since(int64_t began_at) { return (double)(wall_ns() - began_at) / 1e9; }
static inline double cpu_since(int64_t began_at) { return (double)(cpu_ns() - began_at) / 1e9; }

/* Read a word of the command line that must be a number. */
static inline long number_of(const char *word, long least, long most) {
    char *end;
    long number = strtol(word, &end, 10);
    if (*word == 0 || *end || number < least || number > most)
        fail("%s: not a number from %ld to %ld", word, least, most);
    return number;
}

static inline void say_ready(void) {
    puts("ready");
    fflush(stdout);
}

/* Wait for a line, or for the end of the input, which ends the program. */
static inline void await_line(void) {
    char byte = 0;
    while (byte != '\n')
        if (read(STDIN_FILENO, &byte, 1) != 1)
            exit(0);
}

static inline void await_end(void) {
    fflush(stdout);
    for (;;)
        await_line();
}

static inline void set_option(int socket, int level, int option, const void *value, socklen_t size) {
    if (setsockopt(socket, level, option, value, size))
        fail("setsockopt(%d, %d): %s", level, option, strerror(errno));
}

/* Fill a buffer with what the benchmark's other publishers send. */
static inline void fill_payload(char *at, long size) {
    for (long i = 0; i < size; i++)
        at[i] = "0123456789abcdef"[i % 16];
}

static inline struct sockaddr_in address_of(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_port = htons((uint16_t)number_of(port, 1, 65535));
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        fail("%s: not an IPv4 address", host);
    return address;
}

#endif
