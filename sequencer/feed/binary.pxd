# The compiler's view of binary.py: types only, never behaviour.
cimport cython
from sequencer.feed.feed_codec cimport Codec, Packet, copy
from sequencer.feed.feed_message cimport FeedMessage
from sequencer.feed.network cimport read_number, write_number
from sequencer.journal.record cimport Walk

cdef enum:
    MAGIC = 0x53455249
    VERSION = 1
    HEAD_SIZE = 36
    RECORD_SIZE = 26

cdef enum:
    NUMBER_MAX = 9223372036854775807

cdef class BinaryCodec(Codec):
    cdef unsigned long long stream

    cdef Py_ssize_t measure(self, Walk walk, const unsigned char *data) except -1
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t put(self, unsigned char *out, Py_ssize_t at, Walk walk,
                        const unsigned char *data) except -1
    cdef int seal(self, unsigned char *out, Py_ssize_t start, Py_ssize_t end,
                  unsigned long long previous, unsigned long long first,
                  unsigned long long last, unsigned long long count) except -1
    @cython.locals(out=bytearray)
    cdef bytes _alone(self, int kind, unsigned long long previous, unsigned long long after)
    cdef int _head(self, unsigned char *out, Py_ssize_t at, int kind, unsigned long long count,
                   unsigned long long previous, unsigned long long after) except -1

@cython.locals(data='const unsigned char *', size=Py_ssize_t, kind=int, count=int, at=Py_ssize_t, end=Py_ssize_t,
               previous='unsigned long long', after='unsigned long long',
               last='unsigned long long', messages=list)
cdef Packet _decode(bytes datagram)
@cython.locals(data='const unsigned char *', left=Py_ssize_t, length=Py_ssize_t, end=Py_ssize_t,
               header_size=Py_ssize_t, subject_size=Py_ssize_t, number='unsigned long long',
               subject=Py_ssize_t, headers=Py_ssize_t, payload=Py_ssize_t)
cdef Py_ssize_t _record(bytes datagram, Py_ssize_t at, unsigned long long last,
                        list messages) except -1
