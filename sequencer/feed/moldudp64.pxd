# The compiler's view of moldudp64.py: types only, never behaviour.
cimport cython
from sequencer.feed.feed_codec cimport Codec, Packet, copy
from sequencer.feed.feed_message cimport FeedMessage
from sequencer.feed.network cimport read_number, write_number
from sequencer.journal.record cimport Walk

cdef enum:
    HEAD_SIZE = 20
    SESSION_SIZE = 10
    END_COUNT = 65535
    BLOCK_MAX = 65535

cdef enum:
    NUMBER_MAX = 9223372036854775807

@cython.locals(out=bytearray)
cpdef bytes request(bytes session, unsigned long long first, unsigned long long count)

@cython.locals(data='const unsigned char *', first='unsigned long long',
               count='unsigned long long')
cpdef tuple parse_request(bytes datagram)

cdef class MoldUDP64Codec(Codec):
    cdef readonly bint filtered
    cdef public bytes session

    cdef Py_ssize_t measure(self, Walk walk, const unsigned char *data) except -1
    cdef Py_ssize_t put(self, unsigned char *out, Py_ssize_t at, Walk walk,
                        const unsigned char *data) except -1
    cdef int seal(self, unsigned char *out, Py_ssize_t start, Py_ssize_t end,
                  unsigned long long previous, unsigned long long first,
                  unsigned long long last, unsigned long long count) except -1

cdef int _head(unsigned char *out, Py_ssize_t at, bytes session, unsigned long long number,
               unsigned long long count) except -1
@cython.locals(data='const unsigned char *', size=Py_ssize_t, at=Py_ssize_t,
               first='unsigned long long', count='unsigned long long',
               blocks='unsigned long long', length=Py_ssize_t, number='unsigned long long',
               messages=list)
cdef Packet _decode(bytes datagram, bint filtered)
