# The compiler's view of inbox.py: types only, never behaviour.
cimport cython
from broker.dataplane.connection cimport SpareBuffers, unset_bytes, whole_steps
from parser.machine cimport Parser

@cython.final
cdef class Inbox:
    cdef readonly bytearray buffer
    cdef readonly object window
    cdef readonly Py_ssize_t rest_max
    cdef SpareBuffers spare

@cython.final
cdef class Intake:
    cdef Inbox _inbox
    cdef bytes _rest
    cdef readonly bytearray own
    cdef readonly Py_ssize_t end
    cdef Py_ssize_t own_size

    cpdef Py_ssize_t room(self) noexcept
    cpdef bytearray target(self)
    cpdef Py_ssize_t filled(self, Py_ssize_t count) except -1
    @cython.locals(size=Py_ssize_t, need=Py_ssize_t)
    cpdef int keep(self, bytearray buffer, Py_ssize_t start, Py_ssize_t stop, Parser parser) except -1
    @cython.locals(size=Py_ssize_t, own=bytearray)
    cdef int _grow(self, object kept, Py_ssize_t need) except -1
