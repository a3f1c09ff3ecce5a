# The compiler's view of plane.py: types only, never behaviour.
cimport cython
from broker.link cimport Link, SEGMENT
from parser.machine cimport HPUB, IGNORED, MORE, PUB, Parser
from sequencer.frame cimport BARE, BARE_HEADERS, FRAMED_HEADERS, Frame
from sequencer.sequencer cimport Sequencer
from sublist.route cimport Fanout, Route
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription
from sublist.subject cimport is_literal

cdef enum:
    ORDINARY, EXCLUDED, CONTROL, RESERVED

cdef enum:
    SPARE_MAX = 16
    ANSWER_WORK = 16
    MASK32 = 0xFFFFFFFF
    CONTROL_WORK = 64
    WORK_MAX = 262144
    ROUTES_NEAR = 8192

@cython.final
cdef class Plane:
    cdef readonly Sublist sublist
    cdef readonly Sequencer sequencer
    cdef readonly object control
    cdef readonly Py_ssize_t hold_pending
    cdef readonly list crowded
    cdef tuple frames
    cdef list dirty, spare, cut
    cdef unsigned int random
    cdef Py_ssize_t work
    cdef readonly bint interrupted
    # the message at hand
    cdef readonly bytearray store
    cdef const unsigned char *data
    cdef Route route
    cdef Link mute, reader
    cdef unsigned long long number
    cdef Py_ssize_t body, size, header_size, payload, payload_size
    cdef bint renamed
    cdef Py_ssize_t digits, digits_end, subject, reply, reply_size
    cdef bytes sizes

    cpdef spend(self, Py_ssize_t work)
    @cython.locals(parser=Parser, op=int)
    cpdef Py_ssize_t receive(self, Link link, bytearray store, Py_ssize_t stop) except -1
    @cython.locals(route=Route, fanout=Fanout)
    cdef int _publish(self, Link link, Parser parser) except -1
    cdef int _describe(self, Parser parser, Py_ssize_t header_size) noexcept
    cdef int _publish_headers(self, Link link, Parser parser) except -1
    @cython.locals(route=Route, reply=bytes)
    cdef int _publish_uncommon(self, Link link, Parser parser, Py_ssize_t header_size) except -1
    cpdef Py_ssize_t payload_bytes(self)
    cpdef unsigned long long sequence(self, Route route) except? 0
    @cython.locals(reached=Py_ssize_t, sub=Subscription, fanout=Fanout, shape=int)
    cdef Py_ssize_t _fan_out(self) except -1
    @cython.locals(count=Py_ssize_t, first=Py_ssize_t, turn=Py_ssize_t, at=Py_ssize_t,
                   sub=Subscription, link=Link)
    cdef bint _offer_group(self, tuple members) except -1
    @cython.locals(link=Link, frame=Frame, shape=int, counted=Py_ssize_t)
    cdef bint _offer(self, Subscription sub) except -1
    cdef int _stamp(self, Frame frame) except -1
    @cython.locals(route=Route, subject='const unsigned char *')
    cdef int _address(self, Frame frame, Subscription sub) except -1
    cpdef bint say(self, Link link, bytes text) except -1
    @cython.locals(fanout=Fanout)
    cpdef answer(self, bytes reply, bytes payload, bytes headers)
    @cython.locals(link=Link, line=bytes, size=Py_ssize_t)
    cdef _answer_one(self, Subscription sub, bytes reply, bytes payload, bytes headers)
    @cython.locals(stored=Py_ssize_t, full=bint)
    cdef bint _make_room(self, Link link, Py_ssize_t need) except -1
    @cython.locals(link=Link)
    cpdef release(self, Link last)
    cdef _flush(self, Link link)
    cdef _soil(self, Link link)

@cython.locals(sub=Subscription, able=Subscription, link=Link)
cdef Subscription able_member(tuple members)
