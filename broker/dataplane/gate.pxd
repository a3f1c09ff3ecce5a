# The compiler's view of gate.py: types only, never behaviour.
cimport cython
from broker.dataplane.connection cimport SEGMENT, Budget, Connection, SpareBuffers
from sequencer.sequencer cimport Sequencer

cdef enum:
    LARGE_MIN = 8

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

    cdef mark_dirty(self, Connection connection)
    cpdef bint say(self, Connection connection, bytes text) except -1
    cpdef bint is_failing(self) noexcept
    cpdef bint say_now(self, Connection connection, bytes text) except -1
    @cython.locals(buffered=Py_ssize_t, full=bint, held=Py_ssize_t, most=Py_ssize_t)
    cdef bint make_room(self, Connection connection, Py_ssize_t need, unsigned long long number) except -1
    cdef bint _relieve(self, Connection connection) except -1
    cpdef disconnect_slow(self, Connection connection)
    @cython.locals(connection=Connection, safe=bint, slow=list)
    cpdef release(self, Connection last)
    cpdef int reads(self, Connection connection) except -1
    @cython.locals(connection=Connection)
    cpdef release_turn(self)
    cpdef seal(self)
    @cython.locals(connection=Connection, fenced=list, safe=bint)
    cpdef release_safe(self)
    @cython.locals(most=Py_ssize_t, crowded=bint)
    cdef _flush(self, Connection connection)
