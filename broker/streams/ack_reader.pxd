# The compiler's view of ack_reader.py: types only, never behaviour.
cimport cython
from broker.dataplane.stream_table cimport AckTaker
from broker.streams.deliverer cimport ACKED, ROOM, Deliverer
from sequencer.message cimport Message
from sequencer.sequencer cimport Sequencer

cdef enum:
    PREFIX = 8
    WORD = 4
    DIGITS_MAX = 19

# Not final: a method that overrides another cannot be.
cdef class AckReader(AckTaker):
    cdef Sequencer sequencer
    cdef object wake, has_room
    cdef public list changed
    cdef readonly unsigned long long acks
    cdef dict deliverers
    cdef Deliverer recent
    cdef bytes recent_name
    cdef Py_ssize_t at
    cdef bint ok

    cpdef know(self, bytes name, Deliverer deliverer)
    cpdef forget(self, bytes name)
    cpdef note_changed(self, Deliverer deliverer)
    @cython.locals(data='const unsigned char *', start=Py_ssize_t, end=Py_ssize_t,
                   deliverer=Deliverer, number='unsigned long long',
                   own='unsigned long long', time='unsigned long long', outcome=int)
    cpdef bint take(self, Message message) except -1
    @cython.locals(same=bint, begin=Py_ssize_t, body=Py_ssize_t)
    cdef bint _is_plain(self, Message message) except -1
    @cython.locals(data='const unsigned char *', size=Py_ssize_t, at=Py_ssize_t, dots=int,
                   raw='const unsigned char *', name=bytes)
    cdef Deliverer _find(self, Message message, Py_ssize_t begin, Py_ssize_t end)
    @cython.locals(at=Py_ssize_t, begin=Py_ssize_t, value='unsigned long long', digit=int)
    cdef unsigned long long _number(self, const unsigned char *data, Py_ssize_t end) except? 0
