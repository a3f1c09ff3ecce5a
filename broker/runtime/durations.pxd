# The compiler's view of durations.py: types only, never behaviour.
cimport cython

@cython.final
cdef class Durations:
    cdef readonly list counts
    cdef readonly unsigned long long total
    cdef readonly double seconds
    cdef tuple bounds

    @cython.locals(at=Py_ssize_t, bound=double)
    cpdef int observe(self, double seconds, unsigned long long times) except -1
