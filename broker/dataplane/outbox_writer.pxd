# The compiler's view of outbox_writer.py: types only, never behaviour.
cimport cython
from broker.dataplane.connection cimport Connection
from broker.dataplane.frame cimport (
    BARE, BARE_HEADERS, NUMBERED_HEADERS, STAMPED_HEADERS, Frame
)
from broker.dataplane.gate cimport Gate
from sequencer.message cimport Message
from sequencer.sequencer cimport Sequencer
from sublist.route cimport Route
from sublist.subscription cimport Subscription

cdef enum:
    GROWN_SHIFT = 6

@cython.final
cdef class OutboxWriter:
    cdef Gate gate
    cdef Sequencer sequencer
    cdef bint patient
    cdef tuple frames
    cdef Py_ssize_t work

    @cython.locals(headed=bint, counted=Py_ssize_t, shape=int, number='unsigned long long',
                   frame=Frame, data='const unsigned char *', payload=Py_ssize_t, size=Py_ssize_t)
    cdef bint offer(self, Connection connection, Subscription sub, Message message,
                    Route route) except -1
    cdef void expire(self) noexcept
    @cython.locals(held=Py_ssize_t)
    cdef bint _make_room(self, Connection connection, Py_ssize_t need,
                         unsigned long long number) except -1
