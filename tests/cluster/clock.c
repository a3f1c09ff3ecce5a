/* Sets a program's clock ahead (LD_PRELOAD): the time of day, and no other clock.
 *
 *     CLOCK_AHEAD   a file of 8 bytes, mapped: how many nanoseconds, and negative ones for a clock
 *                   that is behind; whoever writes it sets the clock of a program that runs
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ll

static const volatile int64_t *ahead;

/* Again in a fork, which may have another variable (tests/support/fork_server.py). */
__attribute__((constructor)) void clock_start(void)
{
    const char *path = getenv("CLOCK_AHEAD");
    if (!path)
        return;
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        abort();
    ahead = mapped;
    syscall(SYS_close, fd);
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (failed || !ahead || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t now = at->tv_sec * SECOND + at->tv_nsec + *ahead;
    at->tv_sec = now / SECOND;
    at->tv_nsec = now % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *at = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}
