# The compiler's view of plane.py: types only, never behaviour.
cimport cython
from broker.dataplane.reply_publisher cimport ReplyPublisher, is_plain_reply
from broker.dataplane.gate cimport Gate
from broker.dataplane.connection cimport Connection
from parser.machine cimport HPUB, IGNORED, MORE, PUB, Parser
from broker.dataplane.frame cimport BARE, BARE_HEADERS, FRAMED_HEADERS, Frame
from sequencer.sequencer cimport Sequencer
from sublist.route cimport Fanout, Route
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription
from sublist.subject cimport digest_span, is_literal

cdef enum:
    ID_FLAG = 1
    OWED_MAX = 262144
    PREFIX_SIZE = 9

cdef enum:
    ORDINARY, EXCLUDED, UNMATCHABLE, CONTROL, RESERVED, ACKNOWLEDGED

cdef enum:
    COPY_SHIFT = 7
    GROWN_SHIFT = 6
    MASK32 = 0xFFFFFFFF
    CONTROL_WORK = 64
    WORK_MAX = 262144
    ROUTES_NEAR = 8192

@cython.final
cdef class Plane:
    cdef readonly Sublist sublist
    cdef readonly Sequencer sequencer
    cdef readonly object control
    cdef readonly Gate gate
    cdef ReplyPublisher reply_publisher
    cdef tuple frames
    cdef object window
    cdef bytes message_id
    cdef bint refused, named
    cdef unsigned int random
    cdef readonly Py_ssize_t work
    cdef readonly bint interrupted
    # the message at hand
    cdef readonly bytearray store
    cdef const unsigned char *data
    cdef Route route
    cdef Connection mute
    cdef unsigned long long number
    cdef Py_ssize_t body, size, header_size, payload, payload_size
    cdef bint renamed
    cdef Py_ssize_t digits, digits_end, subject, reply, reply_size
    cdef bytes sizes

    cpdef spend(self, Py_ssize_t work)
    @cython.locals(parser=Parser, op=int)
    cpdef Py_ssize_t receive(self, Connection connection, bytearray store, Py_ssize_t stop) except -1
    @cython.locals(route=Route)
    cdef int _publish(self, Connection connection, Parser parser) except -1
    cdef int _describe(self, Parser parser, Py_ssize_t header_size) noexcept
    cdef int _publish_headers(self, Connection connection, Parser parser) except -1
    cdef int _note_sizes(self, Parser parser) except -1
    @cython.locals(reply=Py_ssize_t, reply_size=Py_ssize_t, size=Py_ssize_t,
                   digest='unsigned int', fresh=bint)
    cdef int _publish_acknowledged(self, Connection connection, Parser parser,
                                   Py_ssize_t header_size) except -1
    @cython.locals(route=Route, reply=bytes, fresh=bint)
    cdef int _publish_uncommon(self, Connection connection, Parser parser, Py_ssize_t header_size) except -1
    cpdef Py_ssize_t payload_bytes(self)
    cpdef begin(self)
    cdef bint is_spent(self) noexcept
    cdef unsigned long long submit(self, Route route, unsigned long long origin,
                                   unsigned long long nth, bytearray store, Py_ssize_t at,
                                   Py_ssize_t size) except? 0
    @cython.locals(route=Route)
    cdef unsigned long long submit_staged(self, Parser parser, Py_ssize_t header_size,
                                          unsigned long long origin,
                                          unsigned long long nth) except? 0
    @cython.locals(fanout=Fanout)
    cdef unsigned long long _give_out(self, unsigned long long nth, Route route) except? 0
    @cython.locals(sequencer=Sequencer, subject='const unsigned char *', flags=int)
    cdef unsigned long long _take(self, unsigned long long nth) except? 0
    @cython.locals(told=bint)
    cdef int _refuse(self, Connection connection, Route route) except -1
    cdef int _confirm(self, Connection connection) except -1
    @cython.locals(fresh=bint)
    cpdef unsigned long long sequence(self, Connection connection, Route route) except? 0
    @cython.locals(found=bytes, ours=bint)
    cdef bint _take_once(self, Connection connection) except -1
    @cython.locals(shape=int)
    cdef int _shape(self, Connection connection) noexcept
    cdef bint _owe(self, Connection connection, Subscription sub) except -1
    @cython.locals(reached=Py_ssize_t, sub=Subscription, fanout=Fanout, shape=int)
    cdef Py_ssize_t _fan_out(self) except -1
    @cython.locals(count=Py_ssize_t, first=Py_ssize_t, turn=Py_ssize_t, at=Py_ssize_t, able=bint,
                   sub=Subscription, connection=Connection)
    cdef bint _offer_group(self, tuple members) except -1
    @cython.locals(connection=Connection, frame=Frame, counted=Py_ssize_t, need=Py_ssize_t)
    cdef bint _offer(self, Subscription sub) except -1
    cdef int _stamp(self, Frame frame) except -1
    @cython.locals(route=Route, subject='const unsigned char *')
    cdef int _address(self, Frame frame, Subscription sub) except -1
    cpdef bint say(self, Connection connection, bytes text) except -1
    cpdef answer(self, Connection asker, bytes reply, bytes payload, bytes headers)
    cpdef bint listens(self, Connection asker, bytes reply) except -1
    cpdef release(self, Connection last)
