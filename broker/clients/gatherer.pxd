# The compiler's view of gatherer.py: types only, never behaviour.
cimport cython
from broker.clients.inbox cimport Inbox, Intake
from broker.clients.turn_pace cimport TurnPace
from broker.dataplane.connection cimport Connection
from broker.dataplane.gate cimport Gate
from broker.dataplane.plane cimport Plane
from broker.runtime.loop_latency cimport LoopLatency
from libc.errno cimport EAGAIN, EINTR, errno

cdef extern from "sys/socket.h":
    ssize_t recv(int fd, void *to, size_t size, int flags) noexcept

cdef extern from "sys/epoll.h":
    int EPOLLIN
    union epoll_data:
        int fd
    struct epoll_event:
        unsigned int events
        epoll_data data
    int epoll_wait(int poller, epoll_event *events, int count, int timeout_ms) noexcept nogil

cdef extern from "sys/prctl.h":
    int PR_SET_TIMERSLACK
    int prctl(int option, unsigned long value) noexcept

cdef extern from "time.h":
    struct timespec:
        long tv_sec
        long tv_nsec
    int nanosleep(const timespec *request, timespec *left) noexcept nogil

cdef enum:
    CLIENTS_MAX = 256
    WAITS_MAX = 4

@cython.final
cdef class ClientInput:
    cdef readonly object session
    cdef readonly Connection connection
    cdef readonly Intake intake
    cdef public int fd
    cdef public double heard
    cdef public bint discards_input, leaving, traced, more
    cdef public object meter, wired

@cython.final
cdef class Gatherer:
    cdef object core
    cdef readonly object work_queue
    cdef public bint asked
    cdef public double gather_s
    cdef readonly TurnPace pace
    cdef LoopLatency latency
    cdef timespec pause
    cdef Plane plane
    cdef Gate gate
    cdef Inbox inbox
    cdef bytearray buffer
    cdef object poller
    cdef int poller_fd, loop_fd, error, resume_at, door_max, waits
    cdef dict doors
    cdef list callers, deferred
    cdef bint own, is_serving
    cdef bint one_by_one
    cdef list readers, read_this_turn, ready
    cdef Py_ssize_t bytes_max, bytes
    cdef epoll_event events[CLIENTS_MAX]

    cpdef close(self)
    @cython.locals(fd=int, missing=Py_ssize_t)
    cpdef watch(self, ClientInput reader)
    @cython.locals(fd=int)
    cpdef unwatch(self, ClientInput reader)
    cpdef open_door(self, int fd, accept)
    cpdef close_door(self, int fd)
    cpdef bint defer(self, action, value) except *
    @cython.locals(fd=int, begun=double)
    cpdef read_on(self, ClientInput reader)
    @cython.locals(until=double, left=double, count=int, own=bint)
    cpdef bint serve_for(self, double timeout) except *
    @cython.locals(count=int)
    cpdef turn(self)
    @cython.locals(others=int, own=bint)
    cdef bint _serve_ready(self, int count, bint is_busy) except *
    @cython.locals(deferred=list, callers=list)
    cdef int _finish(self) except -1
    cdef _failed(self, error, what)
    @cython.locals(singly=bint, begun=double, served=double, now=double, wait=double)
    cdef int _turn(self, int count) except -1
    cdef int _sleep(self, double seconds) except -1
    @cython.locals(served=int, at=int, first=int)
    cdef bint _read_all(self, int count, bint singly, double now) except *
    @cython.locals(begun=double)
    cpdef serve(self, ClientInput reader, bytearray buffer, Py_ssize_t stop)
    cdef int _begin(self) except -1
    @cython.locals(count=int)
    cdef int _poll(self, int wait_ms) except -1
    cdef int _poll_again(self) except -1
    cdef int _checked(self, int count) except -1
    cdef int _fd_at(self, int at) noexcept
    @cython.locals(at=int, fd=int, others=int)
    cdef int _look(self, int count) except -1
    @cython.locals(reader=ClientInput, buffer=bytearray, got=Py_ssize_t, stop=Py_ssize_t,
                   most=Py_ssize_t)
    cdef int _read(self, int fd, double now) except -1
    @cython.locals(data='unsigned char *', got=Py_ssize_t)
    cdef Py_ssize_t _receive(self, int fd, bytearray buffer, Py_ssize_t at, Py_ssize_t most) except -2
    cdef int _gone(self, ClientInput reader, Py_ssize_t got) except -1
    @cython.locals(connection=Connection, rest=Py_ssize_t)
    cdef int _serve(self, ClientInput reader, bytearray buffer, Py_ssize_t stop) except -1
    @cython.locals(served=list, reader=ClientInput)
    cdef int _settle(self) except -1
