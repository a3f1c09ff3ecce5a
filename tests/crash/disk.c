/* Stands between a program and one of its directories (LD_PRELOAD): writes down what it does
 * there, and makes it fail.
 *
 *     DISK_DIR      the directory, an absolute path; what lies elsewhere is passed through
 *     DISK_LOG      append an entry to DISK_LOG.<pid> for each change below DISK_DIR, each sync,
 *                   and each send on a socket (tests/crash/powercut.py reads them)
 *     DISK_FAULTS   while this file exists, each of its lines `<operation> <fault> [<end>]` holds:
 *                   operation: write fdatasync (any sync) fallocate truncate open rename unlink
 *                   nowait (a read that may not wait) read (one that may) flock lock (fcntl's)
 *                   fault: an errno in decimal; `short` (write: half, then ENOSPC; nowait: to
 *                   the end of the page, as if the next were not in memory);
 *                   `stall` (wait until the line is gone); `<n>MB/s` (write: takes as long as a
 *                   disk of this speed); `die` (write: all of it, and the process is killed
 *                   before it does anything else)
 *                   end: only a sync of a file whose name ends so fails
 *
 * An entry has two times: before the call and after it. Whoever asks what a sync covered or what
 * was on disk when something was sent takes the time that is worse for the program.
 * Nothing here calls libc's own read or write functions: they are ours.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum what { OPEN = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MAKE_DIR, SEND, CLOSE, UNSEEN };
enum kind { UNKNOWN, REGULAR, DIRECTORY, SOCKET, OTHER };

struct entry {
    uint32_t what, flags;
    uint64_t begin, end, inode;
    int64_t offset;
    uint32_t path, to, data, pid;
};

#define FDS 65536
static unsigned char kinds[FDS];
static uint64_t inodes[FDS];
static const char *directory, *log_path, *faults;
static size_t directory_size;
static int log_fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Again in a fork, which may have other variables (tests/support/fork_server.py). */
__attribute__((constructor)) void disk_start(void)
{
    directory = getenv("DISK_DIR");
    directory_size = directory ? strlen(directory) : 0;
    log_path = getenv("DISK_LOG");
    faults = getenv("DISK_FAULTS");
    if (!directory || !log_path)
        return;
    char own[PATH_MAX];
    snprintf(own, sizeof own, "%s.%d", log_path, getpid());
    int fd = syscall(SYS_openat, AT_FDCWD, own, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    log_fd = fd < 0 ? -1 : syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
    if (log_fd < 0)
        abort();
    syscall(SYS_close, fd);
}

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static int below(const char *path)
{
    return directory && strncmp(path, directory, directory_size) == 0
        && (path[directory_size] == '/' || path[directory_size] == 0);
}

static enum kind classify(int fd)
{
    char link[64], path[PATH_MAX];
    struct stat about;
    if (fd < 0 || fd >= FDS || !directory)
        return OTHER;
    if (kinds[fd])
        return kinds[fd];
    enum kind kind = OTHER;
    if (fstat(fd, &about) == 0) {
        if (S_ISSOCK(about.st_mode))
            kind = SOCKET;
        else if (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
            path[size < 0 ? 0 : size] = 0;
            if (below(path))
                kind = S_ISDIR(about.st_mode) ? DIRECTORY : REGULAR;
        }
    }
    inodes[fd] = about.st_ino;
    return kinds[fd] = kind;
}

/* `path` as an absolute one; only the folder is looked up, for the last name may be new. */
static const char *absolute(int at, const char *path, char *into)
{
    char link[64];
    if (path[0] == '/')
        return path;
    snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, into, PATH_MAX - 1);
    if (size < 0)
        return path;
    snprintf(into + size, PATH_MAX - size, "/%s", path);
    return into;
}

/* Hold the lock: a signal's handler may write, too, and would wait for itself. */
static void enter(sigset_t *before)
{
    sigset_t every;
    sigfillset(&every);
    pthread_sigmask(SIG_BLOCK, &every, before);
    pthread_mutex_lock(&lock);
}

static void leave(const sigset_t *before)
{
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Write an entry down; the caller holds the lock. */
static void put(enum what what, uint32_t flags, uint64_t begin, uint64_t end, uint64_t inode,
                int64_t offset, const char *path, const char *to, const struct iovec *data,
                int count, size_t size)
{
    struct iovec parts[1030];
    int used = 3;
    struct entry entry = {what, flags, begin, end, inode, offset, path ? strlen(path) : 0,
                          to ? strlen(to) : 0, size, getpid()};
    parts[0] = (struct iovec){&entry, sizeof entry};
    parts[1] = (struct iovec){(void *)path, entry.path};
    parts[2] = (struct iovec){(void *)to, entry.to};
    for (int at = 0; at < count && size; at++) {
        size_t take = data[at].iov_len < size ? data[at].iov_len : size;
        parts[used++] = (struct iovec){data[at].iov_base, take};
        size -= take;
    }
    size_t whole = sizeof entry + entry.path + entry.to + entry.data;
    if (syscall(SYS_writev, log_fd, parts, used) != (ssize_t)whole)
        abort();
}

static void note(enum what what, uint32_t flags, uint64_t begin, uint64_t inode, int64_t offset,
                 const char *path, const char *to, const struct iovec *data, int count, size_t size)
{
    if (log_fd < 0)
        return;
    int saved = errno;
    sigset_t before;
    enter(&before);
    put(what, flags, begin, now(), inode, offset, path, to, data, count, size);
    leave(&before);
    errno = saved;
}

/* ---- what is written through a mapping ---- */

enum { MAPPINGS = 64, SECTOR = 512, PAGE = 4096 };
static struct mapping {
    const char *at;
    char *known; /* what it had when it was last looked at */
    size_t size;
    uint64_t inode;
    int64_t offset;
} mappings[MAPPINGS];
static int mapped; /* how many of them were ever in use */

/* Write down the sectors that were changed, all at one time; the caller holds the lock. */
static void look_at(struct mapping *one, uint64_t when)
{
    size_t at = 0, end;
    while (at < one->size) {
        for (end = at; end < one->size; end += SECTOR) {
            size_t some = one->size - end < SECTOR ? one->size - end : SECTOR;
            if (memcmp(one->at + end, one->known + end, some) == 0)
                break;
            memcpy(one->known + end, one->at + end, some);
        }
        if (end > one->size)
            end = one->size;
        if (end > at) {
            struct iovec part = {one->known + at, end - at};
            put(WRITE, 0, when, when, one->inode, one->offset + at, NULL, NULL, &part, 1, end - at);
        }
        at = end > at ? end : at + SECTOR;
    }
}

/* The time at which a call begins. What was written through mappings was written before. */
static uint64_t start_call(void)
{
    if (log_fd >= 0 && mapped) {
        int saved = errno;
        sigset_t before;
        enter(&before);
        /* Other threads write meanwhile: a record into a window, and then its number into a file of
         * a page. So that the number is never seen without the record, look at the page first. */
        uint64_t when = now();
        for (int large = 0; large < 2; large++)
            for (int at = 0; at < mapped; at++)
                if (mappings[at].at && (mappings[at].size > PAGE) == large)
                    look_at(&mappings[at], when);
        leave(&before);
        errno = saved;
    }
    return now();
}

static void follow(void *where, size_t size, uint64_t inode, int64_t offset)
{
    sigset_t before;
    int at = 0;
    enter(&before);
    while (at < MAPPINGS && mappings[at].at)
        at++;
    char *known = (char *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAPPINGS || known == MAP_FAILED)
        abort();
    memcpy(known, where, size);
    mappings[at] = (struct mapping){where, known, size, inode, offset};
    mapped = at >= mapped ? at + 1 : mapped;
    leave(&before);
}

int munmap(void *where, size_t size)
{
    if (log_fd >= 0 && mapped) {
        sigset_t before;
        enter(&before);
        for (int at = 0; at < mapped; at++)
            if (mappings[at].at == where) {
                look_at(&mappings[at], now());
                syscall(SYS_munmap, mappings[at].known, mappings[at].size);
                mappings[at].at = NULL;
            }
        leave(&before);
    }
    return syscall(SYS_munmap, where, size);
}

enum { PACED = -1000, DIE = -2, SHORT = -1 };

/* Whether the name of an open file ends so. */
static int ends(int fd, const char *end)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    ssize_t length = strlen(end);
    return size >= length && memcmp(path + size - length, end, length) == 0;
}

/* The fault that now holds for `operation` on `file` (-1: a line with an end does not hold): an
 * errno, SHORT, DIE, PACED less the MB/s, or 0 for none. */
static int fault_of(const char *operation, int file)
{
    char text[1024], *rest, *line;
    for (;;) {
        if (!faults)
            return 0;
        int fd = syscall(SYS_openat, AT_FDCWD, faults, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return 0;
        ssize_t size = syscall(SYS_read, fd, text, sizeof text - 1);
        syscall(SYS_close, fd);
        text[size < 0 ? 0 : size] = 0;
        int found = 0, stall = 0;
        for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            size_t length = strlen(operation);
            if (strncmp(line, operation, length) || line[length] != ' ')
                continue;
            const char *how = line + length + 1;
            char *end = strchr(how, ' ');
            if (end && (file < 0 || !ends(file, end + 1)))
                continue;
            if (end)
                *end = 0;
            stall = strcmp(how, "stall") == 0;
            found = stall                      ? 0
                    : strcmp(how, "short") == 0 ? SHORT
                    : strcmp(how, "die") == 0   ? DIE
                    : strstr(how, "MB/s")       ? PACED - atoi(how)
                                                : atoi(how);
        }
        if (!stall)
            return found;
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
}

static int fault(const char *operation) { return fault_of(operation, -1); }

static int fails_of(const char *operation, int file)
{
    int error = fault_of(operation, file);
    if (error > 0)
        errno = error;
    return error > 0;
}

static int fails(const char *operation) { return fails_of(operation, -1); }

/* ---- writing and sending ---- */

static ssize_t write_some(int fd, const struct iovec *data, int count, int64_t offset, int flags)
{
    int cut = fault("write"), open_flags = syscall(SYS_fcntl, fd, F_GETFL);
    struct iovec half;
    if (cut > 0) {
        errno = cut;
        return -1;
    }
    if (cut == SHORT) {
        half = (struct iovec){data[0].iov_base, data[0].iov_len / 2};
        data = &half;
        count = 1;
        if (half.iov_len == 0) {
            errno = ENOSPC;
            return -1;
        }
    }
    uint64_t begin = start_call();
    ssize_t done = offset < 0 ? syscall(SYS_writev, fd, data, count)
                              : syscall(SYS_pwritev2, fd, data, count, offset, 0, flags);
    if (done <= 0)
        return done;
    if (cut == DIE)
        syscall(SYS_kill, getpid(), SIGKILL);
    int saved = errno;
    if (cut <= PACED) {
        uint64_t takes = done * 1000ull / (PACED - cut ? PACED - cut : 1);
        nanosleep(&(struct timespec){takes / 1000000000, takes % 1000000000}, NULL);
    }
    if (offset < 0)
        offset = lseek(fd, 0, SEEK_CUR) - done;
    else if (open_flags & O_APPEND)
        offset = lseek(fd, 0, SEEK_END) - done;
    note(WRITE, 0, begin, inodes[fd], offset, NULL, NULL, data, count, done);
    if (open_flags & (O_SYNC | O_DSYNC) || flags & (RWF_SYNC | RWF_DSYNC))
        note(SYNC, 0, now(), inodes[fd], 0, NULL, NULL, NULL, 0, 0);
    errno = saved;
    return done;
}

ssize_t preadv2(int fd, const struct iovec *into, int count, off_t offset, int flags)
{
    int cut = flags & RWF_NOWAIT && classify(fd) == REGULAR ? fault("nowait") : 0;
    if (cut == 0 && !(flags & RWF_NOWAIT) && classify(fd) == REGULAR)
        cut = fault("read");
    if (cut > 0) {
        errno = cut;
        return -1;
    }
    struct iovec page = {into[0].iov_base, 4096 - offset % 4096};
    if (cut < 0 && page.iov_len < into[0].iov_len)
        return syscall(SYS_preadv2, fd, &page, 1, offset, 0, flags & ~RWF_NOWAIT);
    return syscall(SYS_preadv2, fd, into, count, offset, 0, flags);
}

static ssize_t send_some(int fd, const struct msghdr *message, int flags)
{
    uint64_t begin = start_call();
    ssize_t done = syscall(SYS_sendmsg, fd, message, flags);
    if (done > 0)
        note(SEND, 0, begin, fd, 0, NULL, NULL, message->msg_iov, message->msg_iovlen, done);
    return done;
}

ssize_t writev(int fd, const struct iovec *data, int count)
{
    switch (classify(fd)) {
    case REGULAR:
        return write_some(fd, data, count, -1, 0);
    case SOCKET:
        return send_some(fd, &(struct msghdr){.msg_iov = (void *)data, .msg_iovlen = count}, 0);
    default:
        return syscall(SYS_writev, fd, data, count);
    }
}

ssize_t write(int fd, const void *data, size_t size)
{
    struct iovec part = {(void *)data, size};
    enum kind kind = classify(fd);
    return kind == REGULAR || kind == SOCKET ? writev(fd, &part, 1)
                                             : syscall(SYS_write, fd, data, size);
}

ssize_t pwritev2(int fd, const struct iovec *data, int count, off_t offset, int flags)
{
    if (classify(fd) == REGULAR)
        return write_some(fd, data, count, offset, flags);
    return syscall(SYS_pwritev2, fd, data, count, offset, 0, flags);
}

ssize_t pwritev(int fd, const struct iovec *data, int count, off_t offset)
{
    return pwritev2(fd, data, count, offset, 0);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    struct iovec part = {(void *)data, size};
    return pwritev2(fd, &part, 1, offset, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return classify(fd) == SOCKET ? send_some(fd, message, flags)
                                  : syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
               socklen_t to_size)
{
    struct iovec part = {(void *)data, size};
    struct msghdr message = {(void *)to, to_size, &part, 1, NULL, 0, 0};
    return sendmsg(fd, &message, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    return sendto(fd, data, size, flags, NULL, 0);
}

/* ---- syncing and sizes ---- */

static int sync_with(long number, int fd)
{
    enum kind kind = classify(fd);
    if (kind != REGULAR && kind != DIRECTORY)
        return syscall(number, fd);
    uint64_t begin = start_call();
    if (fails_of("fdatasync", fd))
        return -1;
    int done = syscall(number, fd);
    if (done == 0)
        note(SYNC, kind == DIRECTORY, begin, inodes[fd], 0, NULL, NULL, NULL, 0, 0);
    return done;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int ftruncate(int fd, off_t size)
{
    if (classify(fd) != REGULAR)
        return syscall(SYS_ftruncate, fd, size);
    uint64_t begin = start_call();
    if (fails("truncate"))
        return -1;
    int done = syscall(SYS_ftruncate, fd, size);
    if (done == 0)
        note(TRUNCATE, 0, begin, inodes[fd], size, NULL, NULL, NULL, 0, 0);
    return done;
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (classify(fd) != REGULAR)
        return syscall(SYS_fallocate, fd, mode, offset, size);
    uint64_t begin = start_call();
    if (fails("fallocate"))
        return -1;
    int done = syscall(SYS_fallocate, fd, mode, offset, size);
    struct stat about;
    if (done == 0 && mode != FALLOC_FL_KEEP_SIZE && fstat(fd, &about) == 0) {
        if (mode)
            note(UNSEEN, mode, begin, inodes[fd], offset, "fallocate", NULL, NULL, 0, 0);
        else
            note(TRUNCATE, 0, begin, inodes[fd], about.st_size, NULL, NULL, NULL, 0, 0);
    }
    return done;
}

int flock(int fd, int operation)
{
    if (classify(fd) == REGULAR && fails("flock"))
        return -1;
    return syscall(SYS_flock, fd, operation);
}

int fcntl(int fd, int command, ...)
{
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    if (command == F_OFD_SETLK && classify(fd) == REGULAR && fails("lock"))
        return -1;
    return syscall(SYS_fcntl, fd, command, argument);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
    int saved = errno, error = fallocate(fd, 0, offset, size) == 0 ? 0 : errno;
    errno = saved;
    return error;
}

static void *map(void *where, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0 && protection & PROT_WRITE && (flags & MAP_TYPE) != MAP_PRIVATE
        && classify(fd) == REGULAR && log_fd >= 0) {
        void *made = (void *)syscall(SYS_mmap, where, size, protection, flags, fd, offset);
        if (made != MAP_FAILED)
            follow(made, size, inodes[fd], offset);
        return made;
    }
    return (void *)syscall(SYS_mmap, where, size, protection, flags, fd, offset);
}

void *mmap(void *where, size_t size, int protection, int flags, int fd, off_t offset)
{
    return map(where, size, protection, flags, fd, offset);
}

static ssize_t unseen(int fd, const char *call, ssize_t done)
{
    if (done > 0 && classify(fd) == REGULAR)
        note(UNSEEN, 0, now(), inodes[fd], 0, call, NULL, NULL, 0, 0);
    return done;
}

ssize_t sendfile(int to, int from, off_t *offset, size_t size)
{
    return unseen(to, "sendfile", syscall(SYS_sendfile, to, from, offset, size));
}

ssize_t copy_file_range(int from, off_t *at, int to, off_t *offset, size_t size, unsigned flags)
{
    return unseen(to, "copy_file_range",
                  syscall(SYS_copy_file_range, from, at, to, offset, size, flags));
}

/* ---- names ---- */

static int open_at(int at, const char *path, int flags, mode_t mode)
{
    char into[PATH_MAX];
    const char *whole = absolute(at, path, into);
    int inside = below(whole), writes = flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR);
    uint64_t begin = start_call();
    if (inside && writes && fails("open"))
        return -1;
    int fd = syscall(SYS_openat, at, path, flags, mode);
    if (fd < 0 || fd >= FDS)
        return fd;
    kinds[fd] = UNKNOWN;
    if (inside && writes && classify(fd) == REGULAR)
        note(OPEN, flags, begin, inodes[fd], 0, whole, NULL, NULL, 0, 0);
    return fd;
}

#define MODE(flags, last)                                                                         \
    mode_t mode = 0;                                                                              \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                      \
        va_list more;                                                                             \
        va_start(more, last);                                                                     \
        mode = va_arg(more, mode_t);                                                              \
        va_end(more);                                                                             \
    }

int open(const char *path, int flags, ...)
{
    MODE(flags, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    MODE(flags, flags)
    return open_at(at, path, flags, mode);
}

int creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    char one[PATH_MAX], two[PATH_MAX];
    const char *whole = absolute(from_at, from, one), *other = absolute(to_at, to, two);
    int inside = below(whole) || below(other);
    uint64_t begin = start_call();
    if (inside && fails("rename"))
        return -1;
    int done = syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    if (done == 0 && inside)
        note(flags ? UNSEEN : RENAME, flags, begin, 0, 0, whole, other, NULL, 0, 0);
    return done;
}

int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return renameat2(from_at, from, to_at, to, 0);
}

int unlinkat(int at, const char *path, int flags)
{
    char into[PATH_MAX];
    const char *whole = absolute(at, path, into);
    uint64_t begin = start_call();
    if (below(whole) && fails("unlink"))
        return -1;
    int done = syscall(SYS_unlinkat, at, path, flags);
    if (done == 0 && below(whole))
        note(UNLINK, flags, begin, 0, 0, whole, NULL, NULL, 0, 0);
    return done;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode)
{
    char into[PATH_MAX];
    uint64_t begin = start_call();
    int done = syscall(SYS_mkdirat, at, path, mode);
    const char *whole = absolute(at, path, into);
    struct stat about;
    if (done == 0 && below(whole) && stat(whole, &about) == 0)
        note(MAKE_DIR, 0, begin, about.st_ino, 0, whole, NULL, NULL, 0, 0);
    return done;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    char into[PATH_MAX];
    int done = syscall(SYS_linkat, from_at, from, to_at, to, flags);
    const char *whole = absolute(to_at, to, into);
    if (done == 0 && below(whole))
        note(UNSEEN, flags, now(), 0, 0, "link", NULL, NULL, 0, 0);
    return done;
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

/* ---- descriptors that come to mean something else ---- */

static void forget(int fd)
{
    if (fd < 0 || fd >= FDS)
        return;
    if (kinds[fd] == SOCKET)
        note(CLOSE, 0, now(), fd, 0, NULL, NULL, NULL, 0, 0);
    kinds[fd] = UNKNOWN;
}

int close(int fd)
{
    if (fd == log_fd && fd >= 0)
        return 0;
    forget(fd);
    return syscall(SYS_close, fd);
}

int dup3(int from, int to, int flags)
{
    forget(to);
    return syscall(SYS_dup3, from, to, flags);
}

int dup2(int from, int to)
{
    if (from == to)
        return syscall(SYS_fcntl, from, F_GETFD) < 0 ? -1 : to;
    return dup3(from, to, 0);
}

/* The names that programs built for large files call; the same functions here. */
int open64(const char *, int, ...) __attribute__((alias("open")));
int openat64(int, const char *, int, ...) __attribute__((alias("openat")));
int creat64(const char *, mode_t) __attribute__((alias("creat")));
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));
int posix_fallocate64(int, off64_t, off64_t) __attribute__((alias("posix_fallocate")));
ssize_t pwrite64(int, const void *, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t) __attribute__((alias("pwritev")));
ssize_t preadv64v2(int, const struct iovec *, int, off64_t, int) __attribute__((alias("preadv2")));
ssize_t pwritev64v2(int, const struct iovec *, int, off64_t, int) __attribute__((alias("pwritev2")));
void *mmap64(void *, size_t, int, int, int, off64_t) __attribute__((alias("mmap")));
ssize_t sendfile64(int, int, off64_t *, size_t) __attribute__((alias("sendfile")));
