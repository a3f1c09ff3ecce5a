# The compiler's view of pace.py: types only, never behaviour.
cimport cython

cdef enum:
    WINDOW_FIRST = 2097152
    WINDOW_MOST = 33554432
    PAUSE_MIN = 1000000
    NS = 1000000000

@cython.final
cdef class FlowWindow:
    cdef readonly long long size, used, asked
    cdef readonly bytes reply

    cpdef bint add(self, long long total) except -1

@cython.final
cdef class RateLimit:
    cdef readonly long long rate, slack
    cdef readonly long long paid

    cpdef Py_ssize_t free_at(self) except? -1
    cpdef int spend(self, long long total, long long now) except -1

@cython.final
cdef class ReplayTimes:
    cdef readonly unsigned long long last
    cdef readonly long long time, sent_at

    cpdef Py_ssize_t due(self, unsigned long long number, long long time) except? -1
    cpdef int note(self, long long time, long long now) except -1
