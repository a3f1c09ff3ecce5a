# The compiler's view of cquencer_port.py: types only, never behaviour.
cimport cython
from broker.cquencer.cquencer_client cimport CquencerClient
from broker.dataplane.gate cimport Gate
from broker.dataplane.plane cimport Plane
from libc.errno cimport EAGAIN, EINTR, errno
from sequencer.message cimport Message
from sequencer.sequencer cimport Sequencer
from sublist.route cimport Route
from sublist.sublist cimport Sublist

cdef extern from "sys/socket.h":
    ssize_t recv(int fd, void *to, size_t size, int flags) noexcept
    ssize_t send(int fd, const void *data, size_t size, int flags) noexcept
    int MSG_NOSIGNAL

cdef extern from "sys/epoll.h":
    int EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP
    union epoll_data:
        int fd
    struct epoll_event:
        unsigned int events
        epoll_data data
    int epoll_wait(int poller, epoll_event *events, int count, int timeout_ms) noexcept

cdef extern from "time.h":
    struct timespec:
        long long tv_sec
        long tv_nsec
    int CLOCK_REALTIME, CLOCK_BOOTTIME
    int clock_gettime(int clock, timespec *now) noexcept

cdef extern from "limits.h":
    unsigned long long NEVER "ULLONG_MAX"

cdef enum:
    EVENTS_MAX = 64
    ROUNDS_MAX = 16
    DIGITS_MAX = 18
    ANSWER_WORK = 4
    BYTES_SHIFT = 7
    SECOND_NS = 1000000000

@cython.final
cdef class CquencerPort:
    cdef Plane plane
    cdef Gate gate
    cdef Sequencer sequencer
    cdef Sublist sublist
    cdef Message message
    cdef bytearray buffer, subject
    cdef const unsigned char *text
    cdef public Py_ssize_t max_payload
    cdef Py_ssize_t subject_size, length
    cdef bint netstrings, draining
    cdef object poller, owner
    cdef int poller_fd, error, place
    cdef epoll_event events[EVENTS_MAX]
    cdef readonly list clients
    cdef list asked, waiting, late, ready
    cdef readonly Py_ssize_t connections
    cdef readonly unsigned long long messages, bytes, queries, errors

    @cython.locals(missing=Py_ssize_t)
    cpdef admit(self, CquencerClient client)
    @cython.locals(plane=Plane, count=int, at=int, look=int, first=int, served=int)
    cpdef turn(self)
    @cython.locals(waiting=list, client=CquencerClient)
    cpdef release_safe(self)
    @cython.locals(client=CquencerClient)
    cpdef drain(self)
    cpdef close(self, CquencerClient client)
    cdef int _poll(self) except -2
    @cython.locals(now=timespec, steady=timespec)
    cdef _tick(self)
    @cython.locals(client=CquencerClient)
    cdef int _serve(self, int fd, unsigned int events) except -1
    @cython.locals(size=Py_ssize_t, words=bytes)
    cdef int _read(self, CquencerClient client) except -1
    cdef int _throw_away(self, CquencerClient client) except -1
    @cython.locals(held=Py_ssize_t, got=Py_ssize_t, own=bytearray)
    cdef int _read_netstrings(self, CquencerClient client) except -1
    @cython.locals(data='unsigned char *', got=Py_ssize_t)
    cdef Py_ssize_t _receive(self, CquencerClient client, bytearray buffer, Py_ssize_t at,
                             Py_ssize_t size) except -2
    cdef int _cut(self, CquencerClient client, Py_ssize_t got) except -1
    @cython.locals(data='const unsigned char *', at=Py_ssize_t, body=Py_ssize_t, end=Py_ssize_t,
                   words=bytes)
    cdef Py_ssize_t _walk(self, CquencerClient client, bytearray buffer, Py_ssize_t stop) except -1
    @cython.locals(data='const unsigned char *', first=Py_ssize_t, length=Py_ssize_t, whole=bint)
    cdef Py_ssize_t _head(self, CquencerClient client, bytearray buffer, Py_ssize_t at,
                          Py_ssize_t stop) except -1
    @cython.locals(data='const unsigned char *', size=Py_ssize_t)
    cdef Py_ssize_t _pass_over(self, CquencerClient client, bytearray buffer, Py_ssize_t at,
                               Py_ssize_t stop) except -1
    cdef int _break_at(self, CquencerClient client, bytearray buffer, Py_ssize_t at, Py_ssize_t stop,
                       bytes expected) except -1
    cdef int _break(self, CquencerClient client, Py_ssize_t at, bytes expected, bytes seen) except -1
    @cython.locals(route=Route, message=Message, number='unsigned long long')
    cdef int _take(self, CquencerClient client, bytearray buffer, Py_ssize_t at,
                   Py_ssize_t size) except -1
    cdef int _query(self, CquencerClient client) except -1
    @cython.locals(place='unsigned long long')
    cdef int _no_number(self, CquencerClient client, Py_ssize_t size) except -1
    @cython.locals(client=CquencerClient)
    cpdef settled(self, table, unsigned long long place)
    cdef int _refuse(self, CquencerClient client, bytes words) except -1
    @cython.locals(client=CquencerClient)
    cdef int _settle(self) except -1
    @cython.locals(got=Py_ssize_t)
    cdef int _answer(self, CquencerClient client) except -1
    @cython.locals(got=Py_ssize_t)
    cdef Py_ssize_t _send(self, CquencerClient client) except -2
    cpdef int watch(self, CquencerClient client, int interest) except -1
    cdef _finish(self, CquencerClient client)
    @cython.locals(late=list, client=CquencerClient, own=bytearray)
    cdef int _go_on(self) except -1
