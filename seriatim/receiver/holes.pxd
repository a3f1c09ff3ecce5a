# The compiler's view of holes.py: types only, never behaviour.
cimport cython
from libc.math cimport INFINITY
from sequencer.feed.feed_message cimport FeedMessage

cdef enum:
    MESSAGE_BYTES = 128
    HOLE_BYTES = 256
    LOST_BYTES = 64

@cython.final
cdef class Hole:
    cdef readonly long long start, stop
    cdef public double due
    cdef public int tries
    cdef public long long spent
    cdef readonly list behind
    cdef readonly Py_ssize_t bytes, messages

    cdef int hold(self, list events, Py_ssize_t size, Py_ssize_t count) except -1
    cdef int end_at(self, long long stop, list events, Py_ssize_t size,
                    Py_ssize_t count) except -1
    cdef int keep(self, list events, Py_ssize_t size, Py_ssize_t count) except -1
    @cython.locals(rest=Hole)
    cdef Hole split_at(self, long long stop)
    cpdef int ask_again(self, double due) except -1

@cython.final
cdef class Holes:
    cdef readonly list all
    cdef public long long top
    cdef readonly Py_ssize_t held_max, held, pending
    cdef readonly double patience
    cdef public double due
    cdef public bint full
    cdef public list events
    cdef readonly long long messages, duplicates, late, filled, found, lost, dropped

    @cython.locals(hole=Hole)
    cpdef long long next(self) noexcept
    cpdef list drain(self)
    @cython.locals(at=Py_ssize_t, rest=list, top='long long')
    cpdef int cover(self, long long start, long long stop, list messages, double now,
                    double again) except -1
    @cython.locals(count=Py_ssize_t, at=Py_ssize_t, first='long long', last='long long')
    cpdef int cover_each(self, list messages, double now) except -1
    @cython.locals(last=Hole, due=double)
    cpdef int miss(self, long long stop, double now) except -1
    @cython.locals(at=Py_ssize_t, hole=Hole, low='long long', high='long long')
    cpdef int lose(self, long long first, long long last) except -1
    @cython.locals(at=Py_ssize_t, hole=Hole)
    cpdef int lose_all(self) except -1
    @cython.locals(hole=Hole)
    cpdef int cut(self, long long stop) except -1
    @cython.locals(kept=list, size=Py_ssize_t, messages=Py_ssize_t)
    cdef int _let_go(self, Hole hole, long long stop) except -1
    @cython.locals(hole=Hole)
    cpdef int end(self, event) except -1
    @cython.locals(hole=Hole, before=Hole, size=Py_ssize_t, count=Py_ssize_t, need=Py_ssize_t)
    cpdef Py_ssize_t fill(self, Py_ssize_t at, long long low, long long high, list part,
                          double again) except -1
    cpdef int divide(self, Py_ssize_t at, Hole hole, long long stop) except -1
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, hole=Hole)
    cpdef Py_ssize_t find(self, long long number) except -1
    @cython.locals(count=Py_ssize_t, size=Py_ssize_t, need=Py_ssize_t, hole=Hole)
    cdef int _append(self, long long start, long long stop, list messages, double now) except -1
    @cython.locals(count=Py_ssize_t, used=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t,
                   dropped='long long', at=Py_ssize_t, hole=Hole, low='long long',
                   high='long long', part=list)
    cdef int _patch(self, long long start, long long stop, list messages, double again) except -1
    @cython.locals(before=Hole)
    cdef int _put(self, Py_ssize_t at, list part, Py_ssize_t size, Py_ssize_t count) except -1
    cdef int _emit_behind(self, Hole hole) except -1
    cdef int _emit_lost(self, long long first, long long last) except -1

@cython.locals(message=FeedMessage)
cdef long long _place_of(event) except? -1
@cython.locals(message=FeedMessage)
cdef long long _number(list messages, Py_ssize_t at) noexcept
@cython.locals(at=Py_ssize_t)
cdef Py_ssize_t _place(list messages, long long number) except -1
@cython.locals(size=Py_ssize_t, at=Py_ssize_t, message=FeedMessage)
cdef Py_ssize_t _size(list part) except -1
cdef Py_ssize_t _count(list part) except -1
