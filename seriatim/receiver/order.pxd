# The compiler's view of order.py: types only, never behaviour.
cimport cython
from libc.math cimport INFINITY
from sequencer.feed.feed_codec cimport Packet
from sequencer.feed.feed_message cimport FeedMessage
from seriatim.receiver.holes cimport Hole, Holes

cdef enum:
    BACKOFF_MAX = 2
    DOUBLINGS_MAX = 64
    SETTLED = 3
    JUMP = 1048576

cdef enum:
    DATA = 0
    END = 2

cdef extern from "<stdint.h>":
    const long long INT64_MAX

@cython.final
cdef class WantedRange:
    cdef readonly long long stream, first, last

@cython.final
cdef class Origin:
    cdef long long current, former, stale, reach
    cdef double heard

    cdef int retire(self) except -1

@cython.final
cdef class Order:
    cdef readonly long long start, stream, ended_at
    cdef bint fills, filtered, blind
    cdef readonly bint unsure
    cdef readonly bytes followed
    cdef Packet far
    cdef double answer
    cdef long long spend_max, piece, bridge
    cdef object chance
    cdef readonly Holes holes
    cdef readonly bytes session
    cdef Origin origin
    cdef list origins
    cdef readonly long long malformed, heartbeats, asked, strangers

    @cython.locals(messages=list, after='long long', origin=Origin)
    cpdef int offer(self, Packet packet, double now, int feed=*, long long source=*) except -1
    @cython.locals(messages=list, after='long long', holes=Holes)
    cdef int _use(self, Packet packet, double now) except -1
    @cython.locals(after='long long', before=Packet, behind='long long')
    cdef bint _is_credible(self, Packet packet, double now) except -1
    @cython.locals(origin=Origin, at=int)
    cpdef int expect(self, long long after, double now, long long heard=*) except -1
    @cython.locals(stream=bytes, known=bytes)
    cpdef int follow(self, bytes session) except -1
    cdef int _end(self, long long after) except -1
    cdef int _reach(self, long long after, double now) except -1
    @cython.locals(origin=Origin, at=int)
    cpdef int renew(self, bytes session=*) except -1
    cpdef int filled(self, long long stream, long long first, long long last, list messages,
                     double now) except -1
    cpdef int lose(self, long long stream, long long first, long long last) except -1
    @cython.locals(at=Py_ssize_t, hole=Hole, holes=Holes)
    cpdef int answered(self, long long stream, long long first, long long last,
                       double now) except -1
    @cython.locals(at=Py_ssize_t, hole=Hole, holes=Holes, found=list)
    cpdef list missing(self, long long first, long long last)
    @cython.locals(wanted=list, due=double, at=Py_ssize_t, hole=Hole, holes=Holes)
    cpdef list due_requests(self, double now, int room, int weight=*)
    @cython.locals(due=double, at=Py_ssize_t, hole=Hole, holes=Holes)
    cpdef int give_up(self, double now) except -1
    @cython.locals(at=Py_ssize_t, hole=Hole, holes=Holes)
    cpdef int retry(self, double now) except -1
    @cython.locals(last=WantedRange, near=bint)
    cdef bint _ask_for(self, Hole hole, Py_ssize_t at, list wanted, int room) except -1
    @cython.locals(pause=double)
    cdef double _pause(self, int tries) except -1
    @cython.locals(left_out=bint, gone=list)
    cdef Py_ssize_t _give_up(self, Py_ssize_t at, Hole hole) except -1
    @cython.locals(session=bytes, current='long long', fresh=bint, ended=bint,
                   first='long long')
    cdef bint _belongs(self, Packet packet, Origin origin, long long source, double now) except -1

@cython.locals(before='long long', after='long long', limit='long long', number='long long',
               at=Py_ssize_t, message=FeedMessage)
cdef bint is_sound(Packet packet, list messages) except -1
@cython.locals(message=FeedMessage)
cdef long long _after_of(Packet packet, list messages) noexcept
@cython.locals(message=FeedMessage)
cdef long long _first_of(Packet packet, list messages) noexcept
