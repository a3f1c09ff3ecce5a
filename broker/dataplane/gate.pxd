# The compiler's view of gate.py: types only, never behaviour.
cimport cython
from broker.dataplane.connection cimport SEGMENT, Budget, Connection, SpareBuffers
from broker.runtime.durations cimport Durations
from sequencer.sequencer cimport Sequencer

cdef extern from "time.h":
    struct timespec:
        long long tv_sec
        long tv_nsec
    int CLOCK_BOOTTIME
    int clock_gettime(int clock, timespec *now) noexcept

cdef enum:
    LARGE_MIN = 8
    SECOND_NS = 1000000000

@cython.final
cdef class Gate:
    cdef readonly Sequencer sequencer
    cdef public object control, port
    cdef public Py_ssize_t hold_pending, catchup_pending
    cdef readonly list crowded, fenced
    cdef list dirty, slow, readers
    cdef readonly SpareBuffers spare
    cdef Connection reader
    cdef public bint sync_failed
    cdef readonly Budget budget
    cdef readonly Durations writing
    cdef unsigned long long counted

    cdef mark_dirty(self, Connection connection)
    cpdef bint say(self, Connection connection, bytes text) except -1
    cpdef bint is_failing(self) noexcept
    cpdef bint is_in_trouble(self) noexcept
    cpdef bint say_now(self, Connection connection, bytes text) except -1
    @cython.locals(buffered=Py_ssize_t, full=bint, held=Py_ssize_t, most=Py_ssize_t)
    cdef bint make_room(self, Connection connection, Py_ssize_t need, unsigned long long number) except -1
    cdef bint _relieve(self, Connection connection) except -1
    cpdef disconnect_slow(self, Connection connection)
    @cython.locals(connection=Connection, safe=bint, slow=list)
    cpdef release(self, Connection last)
    @cython.locals(sequencer=Sequencer, first='unsigned long long', waited=double)
    cpdef int write_turn(self) except -1
    @cython.locals(now=timespec)
    cdef long long _steady_ns(self) noexcept
    cpdef int reads(self, Connection connection) except -1
    @cython.locals(connection=Connection)
    cpdef release_turn(self)
    cpdef seal(self)
    @cython.locals(connection=Connection, fenced=list, safe=bint)
    cpdef release_safe(self)
    @cython.locals(most=Py_ssize_t, crowded=bint)
    cdef _flush(self, Connection connection)
