# The compiler's view of direct_block.py: types only, never behaviour.
cimport cython
from sequencer.message cimport Message

cdef enum:
    HEAD_SIZE = 24
    GROUP_SIZE = 10

@cython.final
cdef class DirectBlock:
    cdef readonly bytearray data

    cpdef int add(self, Message message, unsigned long long key, int groups, bytes chosen) except -1
    cpdef bytearray take(self)

cpdef bytes packed_group(unsigned long long member, bytes group)

@cython.final
cdef class DirectWalk(Message):
    cdef unsigned long long member
    cdef readonly Py_ssize_t at
    cdef Py_ssize_t stop
    cdef readonly unsigned long long key
    cdef readonly list groups

    cpdef attach(self, bytes data, Py_ssize_t at)
    @cython.locals(subject=Py_ssize_t, reply=Py_ssize_t, groups=int, zero=int, headers=Py_ssize_t,
                   size=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t)
    cpdef bint next(self) except -1
    @cython.locals(member='unsigned long long', size=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t _group(self, Py_ssize_t at) except -1
