# The compiler's view of cquencer_client.py: types only, never behaviour.
cimport cython
from sequencer.digits cimport NETSTRING_MAX, write_netstring

cdef extern from "sys/epoll.h":
    int EPOLLIN

cdef enum:
    READ_MAX = 65536
    REST_MAX = 16384
    OUT_MIN = 64
    OUT_KEPT = 4096

@cython.final
cdef class CquencerClient:
    cdef readonly object connection
    cdef readonly int fd
    cdef readonly str ip
    cdef readonly int port
    cdef readonly unsigned long long cid, origin, heard, messages, bytes, queries, errors
    cdef readonly double started_at
    cdef int interest
    cdef public object meter
    cdef Py_ssize_t read_max
    cdef bint late, ending, ended
    cdef readonly bytes fault
    # answers
    cdef bytearray out
    cdef unsigned char *data
    cdef Py_ssize_t size, end, sent
    cdef unsigned long long wanted
    cdef list owed
    # incomplete input
    cdef readonly bytearray kept
    cdef Py_ssize_t held, need, awaited, skip, passed

    cdef bint may_read(self) except -1
    cdef int number(self, unsigned long long number) except -1
    cdef int count_forwarded(self, unsigned long long place, Py_ssize_t size) except -1
    cdef int forget_input(self) except -1
    @cython.locals(start=Py_ssize_t)
    cdef int owe(self, unsigned long long place) except -1
    @cython.locals(before=bytes, number='unsigned long long', start=Py_ssize_t, stop=Py_ssize_t,
                   at=Py_ssize_t)
    cdef bint settle(self, table, unsigned long long place, unsigned long long newest) except -1
    cdef int _copy(self, bytes text) except -1
    cdef int say(self, bytes text) except -1
    @cython.locals(size=Py_ssize_t, out=bytearray)
    cdef int widen(self, Py_ssize_t need) except -1
    cdef int adopt(self, bytearray out) except -1
    cdef int emptied(self) except -1
    cdef int shrink(self) except -1
    @cython.locals(size=Py_ssize_t)
    cdef int keep(self, bytearray buffer, Py_ssize_t at, Py_ssize_t stop) except -1
    @cython.locals(kept=bytearray, larger=bytearray)
    cdef int grow(self) except -1
