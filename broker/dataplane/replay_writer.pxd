# The compiler's view of replay_writer.py: types only, never behaviour.
cimport cython
from broker.dataplane.gate cimport Gate
from broker.dataplane.connection cimport Connection
from broker.dataplane.guard cimport OpenRequests
from broker.dataplane.outbox_writer cimport OutboxWriter
from sequencer.journal.record cimport RECORD, Walk
from sublist.pattern_set cimport hears
from sublist.route cimport Fanout
from sublist.subject cimport takes
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription

cdef enum:
    GAP = 3
    ENDED = 4
    FULL = 5

cdef enum:
    OUTBOX = 262144
    FEW = 8
    LOOKS_MAX = 32768

@cython.final
cdef class ReplayWriter:
    cdef readonly Gate gate
    cdef readonly Sublist sublist
    cdef Walk walk
    cdef OutboxWriter outbox_writer
    cdef readonly int outcome
    cdef readonly unsigned long long number, found, messages
    cdef readonly long long looked

    cpdef know_salt(self, unsigned int salt)
    @cython.locals(walk=Walk, outcome=int, few=tuple, heard=bint)
    cpdef Py_ssize_t play(self, Connection connection, Subscription sub, unsigned long long number,
                          unsigned long long until, unsigned long long since,
                          bytearray buffer, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(room=bint)
    cdef bint _hand_out(self, Connection connection, Subscription sub, tuple few) except -1
    @cython.locals(walk=Walk, subject=Py_ssize_t, size=Py_ssize_t)
    cdef bint _covered(self, Subscription sub) except -1
    @cython.locals(walk=Walk, subject=bytes, fanout=Fanout, wanted=list, sub=Subscription,
                   count=Py_ssize_t, group=tuple)
    cdef bint _offer_all(self, Connection connection) except -1
    @cython.locals(number='unsigned long long', heard=bint)
    cdef bint _offer_live(self, Connection connection, Subscription sub) except -1
    cdef bint _offer(self, Connection connection, Subscription sub) except -1
    @cython.locals(walk=Walk, now='long long')
    cdef int _note_request(self, Connection connection) except -1
