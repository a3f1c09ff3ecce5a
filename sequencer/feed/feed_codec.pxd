# The compiler's view of feed_codec.py: types only, never behaviour.
cimport cython
from libc.string cimport memcpy
from sequencer.feed.feed_message cimport FeedMessage
from sequencer.journal.record cimport RECORD, RecordBatch, Walk

@cython.final
cdef class Packet:
    cdef readonly int kind
    cdef readonly list messages
    cdef readonly long long previous
    cdef readonly unsigned long long after
    cdef readonly bytes session

# Not final: every codec is a subclass.
cdef class Codec:
    cdef readonly Py_ssize_t head_size, skip_size
    cdef readonly bint contiguous
    cdef readonly str journal
    cdef readonly unsigned int epoch
    cdef bytes _encoded

    cdef Py_ssize_t measure(self, Walk walk, const unsigned char *data) except -1
    cdef Py_ssize_t put(self, unsigned char *out, Py_ssize_t at, Walk walk,
                        const unsigned char *data) except -1
    @cython.locals(head=bytes)
    cdef int seal(self, unsigned char *out, Py_ssize_t start, Py_ssize_t end,
                  unsigned long long previous, unsigned long long first,
                  unsigned long long last, unsigned long long count) except -1
    @cython.locals(batch=RecordBatch, message=FeedMessage)
    cpdef bytes datagram(self, messages, unsigned long long previous)
    @cython.locals(walk=Walk, size=Py_ssize_t, at=Py_ssize_t, count='unsigned long long',
                   out=bytearray)
    cdef bytes _datagram(self, bytes records, unsigned long long previous,
                         unsigned long long first, unsigned long long last)

@cython.locals(packet=Packet, messages=list, at=Py_ssize_t, message=FeedMessage)
cpdef Packet packet_of(Codec codec, bytes datagram)

cdef FeedMessage message_at(Walk walk, const unsigned char *data)
cdef Py_ssize_t copy(unsigned char *out, Py_ssize_t at, const unsigned char *source,
                     Py_ssize_t start, Py_ssize_t size) noexcept
