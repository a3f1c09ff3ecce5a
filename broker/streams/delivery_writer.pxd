# The compiler's view of delivery_writer.py: types only, never behaviour.
cimport cython
from broker.dataplane.connection cimport Connection
from broker.dataplane.gate cimport Gate
from broker.dataplane.ledger cimport Ledger, SubjectEntry
from broker.dataplane.reply_publisher cimport ReplyPublisher
from broker.streams.deliverer cimport FIRST, STOP, THEN, Deliverer
from broker.streams.pull_requests cimport PullRequest, WaitingQueue
from sequencer.digits cimport write_decimal
from sequencer.journal.record cimport RECORD, Walk
from sequencer.message cimport Message
from sublist.subject cimport takes
from sublist.subscription cimport Subscription

cdef extern from "copy.h":
    void copy_span(unsigned char *to, const unsigned char *source, size_t size) noexcept

cdef extern from "same.h":
    bint same_text(const unsigned char *one, const unsigned char *other, Py_ssize_t size) noexcept

cdef enum:
    BEYOND = 3
    ENOUGH = 4
    HELD = 5
    FULL = 6
    UNHEARD = 7

cdef enum:
    FAR = 4096
    LINE_MIN = 1024
    NUMBERS = 64
    HELD_MAX = 262144

@cython.final
cdef class DeliveryWriter:
    cdef Gate gate
    cdef ReplyPublisher replies
    cdef Walk walk
    cdef bytearray line
    cdef unsigned char *data
    cdef Py_ssize_t end
    cdef bytes subject
    cdef SubjectEntry entry
    cdef bint matches
    cdef readonly int outcome
    cdef readonly Py_ssize_t messages
    cdef readonly unsigned long long number
    cdef readonly Connection full
    cdef Py_ssize_t turn

    @cython.locals(walk=Walk)
    cpdef Py_ssize_t play(self, Deliverer deliverer, bytearray buffer, Py_ssize_t size,
                          unsigned long long last, Py_ssize_t most, long long now) except -1
    @cython.locals(outcome=int)
    cpdef bint deliver(self, Deliverer deliverer, Walk record, long long now) except -1
    @cython.locals(ledger=Ledger, size=Py_ssize_t, raw='const unsigned char *', subject=bytes)
    cdef bint _is_wanted(self, Deliverer deliverer, Message record) except -1
    @cython.locals(pattern=bytes)
    cdef int _look_up(self, Deliverer deliverer, Ledger ledger, bytes subject) except -1
    @cython.locals(waiting=WaitingQueue, request=PullRequest, sub=Subscription)
    cdef bint _has_receiver(self, Deliverer deliverer) except -1
    @cython.locals(listeners=tuple, at=Py_ssize_t, size=Py_ssize_t, sub=Subscription,
                   takes_more=bint)
    cdef bint _has_listener(self, Deliverer deliverer) except -1
    @cython.locals(held=Py_ssize_t)
    cdef bint _takes_more(self, Connection connection) except -1
    @cython.locals(asker=Connection, place=tuple, live=bint)
    cdef bint _knows_place(self, PullRequest request) except -1
    @cython.locals(request=PullRequest, sub=Subscription)
    cdef int _write(self, Deliverer deliverer, Message record, int outcome) except -1
    @cython.locals(connection=Connection, header_size=Py_ssize_t, size=Py_ssize_t, body=Py_ssize_t)
    cdef int _write_to(self, Deliverer deliverer, Subscription sub, Message record) except -1
    @cython.locals(field=bytes, block=bytes, headers=bytes)
    cdef int _write_headers(self, Deliverer deliverer, Connection connection, Subscription sub,
                            Message record) except -1
    @cython.locals(need=Py_ssize_t, verb=bytes)
    cdef int _begin_line(self, Deliverer deliverer, Subscription sub, Message record,
                         bint headed) except -1
    cdef int _end_line(self, Py_ssize_t header_size, Py_ssize_t size) except -1
    cdef int _put(self, Connection connection, Subscription sub, const unsigned char *data,
                  Py_ssize_t body, Py_ssize_t size) except -1
    cdef void _copy(self, const unsigned char *source, Py_ssize_t start, Py_ssize_t count) noexcept
    cdef void _byte(self, unsigned char byte) noexcept
