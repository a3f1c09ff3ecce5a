# The compiler's view of arrivals.py: types only, never behaviour.
cimport cython
from sequencer.feed.feed_codec cimport Codec, Packet, packet_of
from seriatim.receiver.order cimport Order

cdef extern from "arrivals.h":
    int arrivals_receive(int fd, unsigned char *buffer, int *sizes, int *parts,
                         long long *sources, unsigned int *drops, int *error) noexcept

cdef enum:
    SLOTS = 32
    SLOT_BYTES = 65536
    EAGAIN = 11
    ROUNDS = 8

@cython.final
cdef class Arrivals:
    cdef object socket
    cdef int fd
    cdef bytearray buffer
    cdef unsigned char *data
    cdef int got
    cdef list slots
    cdef int sizes[SLOTS]
    cdef int parts[SLOTS]
    cdef long long sources[SLOTS]
    cdef readonly long long count, malformed
    cdef readonly str fault
    cdef readonly int error
    cdef readonly unsigned int drops

    @cython.locals(before=Py_ssize_t, slot=int)
    cpdef Py_ssize_t read(self, Order order, Codec codec, double now, int feed) except -1
    @cython.locals(found=list, slot=int, at=int, size=int)
    cpdef list datagrams(self)
    @cython.locals(at=int, size=int, packet=Packet)
    cdef int _read_slot(self, int slot, Order order, Codec codec, double now, int feed) except -1
    @cython.locals(start=Py_ssize_t)
    cdef bytes _datagram(self, int slot, int at, int size)
    cdef int _size(self, int slot) except -1
    cdef int _part(self, int slot) except -1
    cdef long long _source(self, int slot) noexcept
    cdef int _receive(self) except -1
