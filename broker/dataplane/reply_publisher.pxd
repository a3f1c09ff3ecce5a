# The compiler's view of reply_publisher.py: types only, never behaviour.
cimport cython
from broker.dataplane.gate cimport Gate
from broker.dataplane.connection cimport Connection
from broker.dataplane.outbox_writer cimport OutboxWriter
from sequencer.digits cimport write_decimal, write_netstring
from sequencer.message cimport Message
from sublist.route cimport Fanout, Route
from sublist.pattern_set cimport hears
from sublist.subject cimport takes
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription

cdef enum:
    FEW = 8
    ANSWER_WORK = 16
    COVER_WORK = 4
    TEXT_MAX = 2048

@cython.final
cdef class ReplyPublisher:
    cdef Sublist sublist
    cdef Gate gate
    cdef OutboxWriter outbox_writer
    cdef Message message
    cdef bytearray text
    cdef unsigned char *data
    cdef readonly Py_ssize_t looked

    cdef Py_ssize_t acknowledge(self, Connection asker, Message message) except -1
    @cython.locals(size=Py_ssize_t, tail=bytes)
    cdef Py_ssize_t acknowledge_in_stream(self, Connection asker, Message message, bytes head,
                                          bint repeated) except -1
    @cython.locals(size=Py_ssize_t, route=Route, reply=Message, only=Subscription,
                   fanout=Fanout, own=tuple, sub=Subscription)
    cdef Py_ssize_t _acknowledge(self, Connection asker, Message message,
                                 Py_ssize_t text_size) except -1
    @cython.locals(only=Subscription)
    cdef Subscription _only_one(self, Connection asker, Message message)
    @cython.locals(only=Subscription, sub=Subscription)
    cdef Subscription _search(self, Connection asker, Message message)
    @cython.locals(pattern=bytes)
    cdef bint _gets(self, Subscription sub, Message message) noexcept
    @cython.locals(own=tuple, sub=Subscription)
    cpdef Py_ssize_t answer(self, Connection asker, bytes reply, bytes payload, bytes headers,
                            bint numbered) except -1
    @cython.locals(own=tuple)
    cpdef Py_ssize_t send_status(self, Connection asker, bytes inbox, bytes headers) except -1
    @cython.locals(connection=Connection, size=Py_ssize_t, line=bytes, after=bytes, is_sent=bint)
    cpdef bint hand_to(self, Subscription sub, bytes subject, bytes reply, bytes payload,
                       bytes headers, bint at_once) except -1
    cpdef tuple subscriptions_of(self, Connection asker, bytes inbox)
    cpdef bint listens(self, Connection asker, bytes reply) except -1
    @cython.locals(fanout=Fanout, own=list, here=Py_ssize_t, members=tuple)
    cdef tuple _own(self, Connection asker, Route route)

@cython.locals(own=list, queues=set, sub=Subscription)
cdef tuple _own_that_cover(Connection asker, bytes subject)
cdef int under(Message message, Route route) noexcept
cdef bint is_plain_reply(const unsigned char *data, Py_ssize_t reply, Py_ssize_t size) noexcept
