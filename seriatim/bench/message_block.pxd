# The compiler's view of message_block.py: types only, never behaviour.
cimport cython

@cython.final
cdef class MessageBlock:
    cdef bytearray data, table
    cdef object bytes
    cdef unsigned char *raw
    cdef long long *places
    cdef long long key
    cdef readonly Py_ssize_t messages
    cdef Py_ssize_t piece, tail

    @cython.locals(index=Py_ssize_t, count=Py_ssize_t, at=Py_ssize_t, due='long long')
    cpdef Py_ssize_t stamp(self, long long sent, long long most, double start,
                           double interval) except -1
    @cython.locals(index=Py_ssize_t, begin=Py_ssize_t)
    cpdef object stamped(self, long long sent, Py_ssize_t count)
    @cython.locals(place=Py_ssize_t)
    cdef int _write(self, Py_ssize_t at, unsigned long long value) noexcept
