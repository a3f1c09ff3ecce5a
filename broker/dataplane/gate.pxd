# The compiler's view of gate.py: types only, never behaviour.
cimport cython
from broker.dataplane.link cimport Budget, Link, SEGMENT
from sequencer.sequencer cimport Sequencer

cdef enum:
    SPARE_MAX = 16

@cython.final
cdef class Gate:
    cdef readonly Sequencer sequencer
    cdef public object control, port
    cdef readonly Py_ssize_t hold_pending
    cdef public Py_ssize_t catchup_pending
    cdef readonly list crowded, fenced
    cdef list dirty, slow
    cdef readonly list spare
    cdef Link reader
    cdef readonly Budget budget

    cdef soil(self, Link link)
    cpdef bint say(self, Link link, bytes text) except -1
    @cython.locals(stored=Py_ssize_t, full=bint, held=Py_ssize_t, most=Py_ssize_t)
    cdef bint make_room(self, Link link, Py_ssize_t need, unsigned long long number) except -1
    cdef bint _relieve(self, Link link) except -1
    cpdef cut(self, Link link)
    @cython.locals(link=Link, safe=bint, slow=list)
    cpdef release(self, Link last)
    cpdef seal(self)
    @cython.locals(link=Link, fenced=list, safe=bint)
    cpdef let_out(self)
    @cython.locals(store=bytearray, crowded=bint)
    cdef _flush(self, Link link)
