# The compiler's view of datagrams.py: types only, never behaviour.
cimport cython
from libc.string cimport memmove

cdef extern from "datagrams.h":
    int datagrams_send(int fd, const unsigned char *base, const long long *ends, int first,
                       int count, long long start, long long *segment_max, int *error) noexcept
    int datagrams_wait(int fd, int wait_ms) noexcept

cdef enum:
    BUFFER_MIN = 65536
    BUFFER_MAX = 1048576
    SLOTS_MIN = 1024
    SLOTS_KEPT = 65536
    PLACE_BYTES = 16
    WAITS = 4
    EAGAIN = 11
    ENOBUFS = 105

@cython.final
cdef class Datagrams:
    cdef object socket
    cdef int fd, wait_ms, failure
    cdef readonly long long segment_max
    cdef Py_ssize_t pending_max
    cdef bytearray buffer, end_bytes, last_bytes
    cdef unsigned char *data
    cdef Py_ssize_t size, slots
    cdef readonly Py_ssize_t end, count
    cdef long long *ends
    cdef unsigned long long *lasts
    cdef readonly unsigned long long datagrams, bytes, errors
    cdef readonly int error

    @cython.locals(size=Py_ssize_t, buffer=bytearray)
    cdef int reserve(self, Py_ssize_t need) except -1
    cdef int add(self, Py_ssize_t end, unsigned long long last) except -1
    @cython.locals(stop=int, at=int, start='long long', sent=int, waits=int, full=bint, lost=int)
    cdef int send_safe(self, unsigned long long safe) except -1
    cdef int _send(self, int at, int stop, long long start) except -1
    cdef bint _wait(self) except -1
    @cython.locals(left=Py_ssize_t, index=Py_ssize_t)
    cdef int _forget(self, Py_ssize_t gone, long long start) except -1
    cdef int _shrink(self) except -1
    cdef int _adopt(self, bytearray buffer) except -1
    @cython.locals(ends=bytearray, lasts=bytearray, raw='unsigned char *')
    cdef int _make_slots(self, Py_ssize_t slots) except -1
