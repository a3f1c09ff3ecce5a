# The compiler's view of latency_table.py: types only, never behaviour.
cimport cython

cdef enum:
    FINE = 1000000
    COARSE = 1048576

@cython.final
cdef class LatencyTable:
    cdef bytearray table
    cdef long long *counts
    cdef Py_ssize_t used

    @cython.locals(slot='long long')
    cpdef int add(self, long long ns) except -1
