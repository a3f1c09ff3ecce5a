# The compiler's view of stream_message.py: types only, never behaviour.
cimport cython

@cython.final
cdef class Message:
    cdef readonly str subject
    cdef readonly str reply
    cdef readonly bytes block
    cdef readonly object payload
    cdef readonly long long sid
    cdef readonly long long _number
    cdef long long _time
    cdef Py_ssize_t _skipped
    cdef dict _headers

    cdef Py_ssize_t _skip(self) except -1
    @cython.locals(block=bytes, start=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t _read_number(self) except -1
    @cython.locals(block=bytes, start=Py_ssize_t, end=Py_ssize_t)
    cdef int _read_stamp(self) except -1

@cython.locals(at=Py_ssize_t)
cpdef bint is_stamped(bytes block) except -1
