/* Keeps the process alive when the disk does not give a page of the journal window.

   The window is mapped. If a file system cannot take a write to one of its pages (a copy-on-write
   file system that is full, a disk that fails), or the page is beyond the end of a file that was
   cut short, the kernel sends SIGBUS. The handler puts a page of plain memory in the place of
   this one, with the same content, and returns; the access is repeated there. What is written to
   it does not outlive the process, so the store looks here before it counts anything as written.

   The handler calls only what is safe in one: mmap, pread, mremap, sigaction. A page has a state,
   so that two threads do not replace it twice: the second would undo what the first has written. */
#ifndef SERIATIM_WINDOW_GUARD_H
#define SERIATIM_WINDOW_GUARD_H

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define GUARD_LOCK_ON_FAULT 1 /* MLOCK_ONFAULT */

enum { GUARD_OF_FILE, GUARD_CHANGING, GUARD_REPLACED }; /* states of a page */
enum { GUARD_GONE = -1, GUARD_NO_PAGE = -2 };           /* what guard_heal returns beside errnos */

struct window_guard {
    struct window_guard *next;
    uintptr_t begin, end;
    size_t page, size;
    int fd, locked;
    int count; /* pages that are replaced */
    int lost;  /* the content of one of them could not be read */
    unsigned char states[];
};

static struct window_guard *guards;
static struct sigaction guard_before;
static int guard_installed;

static size_t guard_want(const struct window_guard *guard, size_t offset) {
    size_t left = guard->size - offset;
    return left < guard->page ? left : guard->page;
}

/* Whether the access can be repeated. */
static int guard_replace(struct window_guard *guard, uintptr_t address, int code) {
    size_t offset = (address - guard->begin) / guard->page * guard->page;
    unsigned char *state = &guard->states[offset / guard->page], before = GUARD_OF_FILE;
    size_t want = guard_want(guard, offset), got = 0;
    if (!__atomic_compare_exchange_n(state, &before, GUARD_CHANGING, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        return code == BUS_ADRERR; /* another thread is doing it, or has done it */
    char *page = mmap(NULL, guard->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 0;
    while (got < want) {
        ssize_t count = pread(guard->fd, page + got, want - got, (off_t)(offset + got));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        got += (size_t)count;
    }
    if (got < want)
        __atomic_store_n(&guard->lost, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&guard->count, 1, __ATOMIC_SEQ_CST);
    if (mremap(page, guard->page, guard->page, MREMAP_MAYMOVE | MREMAP_FIXED,
               (void *)(guard->begin + offset)) == MAP_FAILED)
        return 0;
    __atomic_store_n(state, GUARD_REPLACED, __ATOMIC_SEQ_CST);
    return 1;
}

static void guard_on_fault(int number, siginfo_t *info, void *context) {
    int error = errno;
    uintptr_t address = (uintptr_t)info->si_addr;
    (void)context;
    if (info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR) {
        struct window_guard *guard = __atomic_load_n(&guards, __ATOMIC_SEQ_CST);
        for (; guard != NULL; guard = guard->next)
            if (address >= guard->begin && address < guard->end && guard_replace(guard, address, info->si_code)) {
                errno = error;
                return;
            }
    }
    sigaction(SIGBUS, &guard_before, NULL); /* not ours: as if we were not here */
    if (info->si_code <= 0)
        raise(number); /* it was sent, so no access will repeat it */
    errno = error;
}

/* Guard `size` bytes at `address`, which are those of this file from its beginning. NULL: errno. */
static struct window_guard *guard_begin(size_t address, size_t size, int fd, int locked) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page;
    struct window_guard *guard = calloc(1, sizeof *guard + pages);
    if (guard == NULL)
        return NULL;
    guard->begin = address;
    guard->end = address + pages * page;
    guard->page = page;
    guard->size = size;
    guard->fd = fd;
    guard->locked = locked;
    guard->next = guards;
    __atomic_store_n(&guards, guard, __ATOMIC_SEQ_CST);
    if (!guard_installed) {
        struct sigaction action = {0};
        action.sa_sigaction = guard_on_fault;
        action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        guard_installed = sigaction(SIGBUS, &action, &guard_before) == 0;
    }
    return guard;
}

/* The memory is not used any more. Closes the file. */
static void guard_end(struct window_guard *guard) {
    struct window_guard **link = &guards;
    while (*link != guard)
        link = &(*link)->next;
    __atomic_store_n(link, guard->next, __ATOMIC_SEQ_CST);
    close(guard->fd);
    free(guard);
}

/* Write one page back, and map the file's page in its place again. Returns 0, GUARD_NO_PAGE or an
   errno; then nothing has changed. */
static int guard_heal_page(struct window_guard *guard, size_t offset) {
    char *page = (char *)(guard->begin + offset), *made;
    size_t want = guard_want(guard, offset), done = 0;
    while (done < want) {
        ssize_t count = pwrite(guard->fd, page + done, want - done, (off_t)(offset + done));
        if (count < 0 && errno != EINTR)
            return errno;
        if (count > 0)
            done += (size_t)count;
    }
    made = mmap(NULL, guard->page, PROT_READ | PROT_WRITE, MAP_SHARED, guard->fd, (off_t)offset);
    if (made == MAP_FAILED)
        return errno;
#ifdef SYS_mlock2
    if (guard->locked)
        syscall(SYS_mlock2, made, guard->page, GUARD_LOCK_ON_FAULT);
#endif
    if (madvise(made, guard->page, MADV_POPULATE_WRITE) && errno != EINVAL) { /* an older Linux */
        int error = errno == EFAULT ? GUARD_NO_PAGE : errno;
        munmap(made, guard->page);
        return error;
    }
    if (mremap(made, guard->page, guard->page, MREMAP_MAYMOVE | MREMAP_FIXED, page) == MAP_FAILED) {
        int error = errno;
        munmap(made, guard->page);
        return error;
    }
    __atomic_sub_fetch(&guard->count, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&guard->states[offset / guard->page], GUARD_OF_FILE, __ATOMIC_SEQ_CST);
    return 0;
}

/* Write all pages back that were replaced. For the thread that writes to the window. Returns 0,
   GUARD_GONE, GUARD_NO_PAGE or an errno. */
static int guard_heal(struct window_guard *guard) {
    struct stat about;
    size_t at, pages = (guard->size + guard->page - 1) / guard->page;
    if (fstat(guard->fd, &about) || (size_t)about.st_size < guard->size)
        __atomic_store_n(&guard->lost, 1, __ATOMIC_SEQ_CST);
    for (at = 0; at < pages && !guard->lost; at++)
        if (__atomic_load_n(&guard->states[at], __ATOMIC_SEQ_CST) == GUARD_REPLACED) {
            int error = guard_heal_page(guard, at * guard->page);
            if (error)
                return error;
        }
    return guard->lost ? GUARD_GONE : 0;
}

#endif
