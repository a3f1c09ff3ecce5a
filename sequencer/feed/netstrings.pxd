# The compiler's view of netstrings.py: types only, never behaviour.
cimport cython
from sequencer.feed.feed_codec cimport Codec, Packet, copy
from sequencer.feed.feed_message cimport FeedMessage
from sequencer.digits cimport inner_size, width_of, write_decimal
from sequencer.journal.record cimport Walk

cdef enum:
    DIGITS_MAX = 19

cdef class NetstringCodec(Codec):
    @cython.locals(inner=Py_ssize_t)
    cdef Py_ssize_t measure(self, Walk walk, const unsigned char *data) except -1
    cdef Py_ssize_t put(self, unsigned char *out, Py_ssize_t at, Walk walk,
                        const unsigned char *data) except -1

cdef class NetstringSubjectCodec(Codec):
    @cython.locals(inner=Py_ssize_t)
    cdef Py_ssize_t measure(self, Walk walk, const unsigned char *data) except -1
    @cython.locals(inner=Py_ssize_t)
    cdef Py_ssize_t put(self, unsigned char *out, Py_ssize_t at, Walk walk,
                        const unsigned char *data) except -1

@cython.final
cdef class _Reading:
    cdef bytes datagram
    cdef const unsigned char *data
    cdef Py_ssize_t size, at
    cdef unsigned long long number

    @cython.locals(end=Py_ssize_t, number='unsigned long long')
    cdef FeedMessage frame(self, bint subjects)
    @cython.locals(size=Py_ssize_t, stop=Py_ssize_t, number='unsigned long long')
    cdef unsigned long long _number(self, Py_ssize_t end) except 0
    @cython.locals(size=Py_ssize_t, start=Py_ssize_t)
    cdef bytes _content(self, Py_ssize_t end)
    @cython.locals(start=Py_ssize_t, length=Py_ssize_t)
    cdef Py_ssize_t _length(self) except -1
    @cython.locals(value='unsigned long long', start=Py_ssize_t)
    cdef unsigned long long _digits(self, Py_ssize_t stop) except? 0
    cdef int _expect(self, unsigned char byte) except -1

cdef Py_ssize_t netstring(unsigned char *out, Py_ssize_t at, const unsigned char *data,
                          Py_ssize_t start, Py_ssize_t size) noexcept
@cython.locals(reading=_Reading, messages=list, message=FeedMessage)
cdef Packet _decode(bytes datagram, bint subjects)
