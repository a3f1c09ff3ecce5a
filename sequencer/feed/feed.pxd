# The compiler's view of feed.py: types only, never behaviour.
cimport cython
from sequencer.feed.feed_codec cimport Codec
from sequencer.feed.datagrams cimport Datagrams
from sequencer.journal.record cimport RECORD, Walk

@cython.final
cdef class Feed:
    cdef readonly Codec codec
    cdef Datagrams out
    cdef readonly Py_ssize_t datagram_max, packing
    cdef object matches
    cdef Walk walk
    cdef dict decided
    cdef public unsigned long long previous
    cdef readonly unsigned long long messages, skipped, too_long, broken
    cdef readonly str fault
    cdef Py_ssize_t start, end
    cdef unsigned long long first, last, held

    @cython.locals(walk=Walk, codec=Codec, data='const unsigned char *', skip=bint,
                   size=Py_ssize_t, at=Py_ssize_t)
    cpdef int add_records(self, object buffer, Py_ssize_t stop) except -1
    cpdef int flush(self, unsigned long long safe) except -1
    cpdef bint heartbeat(self, unsigned long long after) except -1
    cpdef bint finish(self, unsigned long long after) except -1
    @cython.locals(out=Datagrams, at=Py_ssize_t, data='const unsigned char *')
    cdef bint _say(self, bytes text, unsigned long long after) except -1
    @cython.locals(full=bint)
    cdef int _make_room(self, Py_ssize_t size, unsigned long long number) except -1
    @cython.locals(out=Datagrams)
    cdef int _close(self) except -1
    cdef _break(self, error, unsigned long long messages)
    @cython.locals(walk=Walk, subject=bytes)
    cdef bint _wanted(self) except -1
