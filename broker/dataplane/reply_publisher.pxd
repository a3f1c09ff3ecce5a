# The compiler's view of reply_publisher.py: types only, never behaviour.
cimport cython
from broker.dataplane.gate cimport Gate
from broker.dataplane.connection cimport Connection
from broker.dataplane.frame cimport Frame
from sequencer.digits cimport width_of
from sublist.route cimport Fanout, Route
from sublist.subject cimport covers, digest_of, digest_span
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription

cdef enum:
    SIZE_AT = 28
    ANSWER_WORK = 16
    COVER_WORK = 4

@cython.final
cdef class ReplyPublisher:
    cdef Sublist sublist
    cdef Gate gate
    cdef public object control
    cdef Frame frame
    cdef bytearray text
    cdef unsigned char *data
    cdef readonly Py_ssize_t looked

    @cython.locals(route=Route, fanout=Fanout, text_size=Py_ssize_t, own=tuple, sub=Subscription)
    cdef Py_ssize_t acknowledge(self, Connection asker, const unsigned char *data, Py_ssize_t reply,
                                Py_ssize_t size, unsigned long long number) except -1
    @cython.locals(own=tuple)
    cpdef Py_ssize_t answer(self, Connection asker, bytes reply, bytes payload, bytes headers) except -1
    cpdef bint listens(self, Connection asker, bytes reply) except -1
    @cython.locals(fanout=Fanout, own=list, here=Py_ssize_t, members=tuple)
    cdef tuple _own(self, Connection asker, Route route)
    @cython.locals(width=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _write(self, unsigned long long number) noexcept
    @cython.locals(frame=Frame)
    cdef int _deliver(self, Subscription sub, Connection connection, Route route, const unsigned char *data,
                      Py_ssize_t reply, Py_ssize_t text_size) except -1
    @cython.locals(line=bytes, size=Py_ssize_t)
    cdef _answer_one(self, Subscription sub, Connection connection, bytes reply, bytes payload, bytes headers)

@cython.locals(own=list, queues=set, sub=Subscription)
cdef tuple _own_that_cover(Connection asker, bytes subject)
cdef bint is_plain_reply(const unsigned char *data, Py_ssize_t reply, Py_ssize_t size) noexcept
