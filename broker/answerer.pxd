# The compiler's view of answerer.py: types only, never behaviour.
cimport cython
from broker.gate cimport Gate
from broker.link cimport Link
from sequencer.frame cimport Frame, width_of
from sublist.route cimport Fanout, Route
from sublist.subject cimport digest_of, digest_span
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription

cdef enum:
    SIZE_AT = 28

@cython.final
cdef class Answerer:
    cdef Sublist sublist
    cdef Gate gate
    cdef public object control
    cdef Frame frame
    cdef bytearray text
    cdef unsigned char *data

    @cython.locals(route=Route, fanout=Fanout, text_size=Py_ssize_t)
    cdef Py_ssize_t acknowledge(self, const unsigned char *data, Py_ssize_t reply,
                                Py_ssize_t size, unsigned long long number) except -1
    @cython.locals(fanout=Fanout)
    cpdef Py_ssize_t answer(self, bytes reply, bytes payload, bytes headers) except -1
    @cython.locals(width=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _write(self, unsigned long long number) noexcept
    @cython.locals(link=Link, frame=Frame)
    cdef int _deliver(self, Subscription sub, Route route, const unsigned char *data,
                      Py_ssize_t reply, Py_ssize_t text_size) except -1
    @cython.locals(link=Link, line=bytes, size=Py_ssize_t)
    cdef _answer_one(self, Subscription sub, bytes reply, bytes payload, bytes headers)

@cython.locals(sub=Subscription, able=Subscription, link=Link)
cdef Subscription able_member(tuple members)
cdef bint is_plain_reply(const unsigned char *data, Py_ssize_t reply, Py_ssize_t size) noexcept
