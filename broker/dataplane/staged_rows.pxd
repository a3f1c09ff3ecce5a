# The compiler's view of staged_rows.py: types only, never behaviour.
cimport cython
from broker.dataplane.guard cimport Guard
from broker.dataplane.reply_publisher cimport is_plain_reply
from broker.dataplane.plane cimport Plane, describe
from parser.machine cimport FAULT, HPUB, MORE, PUB, Parser
from sequencer.message cimport Message
from sublist.route cimport Route
from sublist.sublist cimport Sublist

cdef enum:
    ORDINARY = 0
    EXCLUDED = 1
    UNMATCHABLE = 2
    DEEP = 6

cdef enum:
    BAD = -1
    ROW_WORK = 16
    BYTES_SHIFT = 7

@cython.final
cdef class Staged:
    cdef Plane plane
    cdef Sublist sublist
    cdef Message message
    cdef readonly str problem
    cdef readonly Py_ssize_t row, at
    cdef readonly bint ended, forbidden, full
    cdef public bint trusts

    @cython.locals(data='const unsigned char *', rows=Py_ssize_t, size=Py_ssize_t, op=int,
                   route=Route, plain=bint)
    cpdef Py_ssize_t check(self, Parser parser, bytearray buffer, Py_ssize_t at,
                           Py_ssize_t stop, Guard guard=*) except -2
    @cython.locals(plane=Plane, message=Message, rows=Py_ssize_t, begin=Py_ssize_t, op=int,
                   state=int, header_size=Py_ssize_t, size=Py_ssize_t, route=Route)
    cpdef Py_ssize_t publish(self, Parser parser, bytearray buffer, Py_ssize_t at,
                             Py_ssize_t stop, unsigned long long origin,
                             unsigned long long nth, Py_ssize_t most) except -2
    @cython.locals(passed=Py_ssize_t, op=int)
    cpdef Py_ssize_t pass_over(self, Parser parser, bytearray buffer, Py_ssize_t at,
                               Py_ssize_t stop, Py_ssize_t rows) except -2
    cdef Py_ssize_t _refuse(self, Py_ssize_t rows, str why) except -2
    cdef Py_ssize_t _forbid(self, Py_ssize_t rows, bytes subject) except -2
    cdef bint _is_reserved(self, Py_ssize_t rows, Parser parser) except -1
    cdef bint _is_trace_only(self, Py_ssize_t rows, Parser parser) except -1
    cdef bint _is_guarded(self, Py_ssize_t rows, Parser parser) except -1
    cdef Py_ssize_t _refuse_subject(self, Py_ssize_t rows, bytes subject, int kind) except -2

cdef str _fault_of(Parser parser, int op)
