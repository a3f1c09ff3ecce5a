# The compiler's view of loop_latency.py: types only, never behaviour.
cimport cython
from broker.runtime.durations cimport Durations

@cython.final
cdef class LoopLatency:
    cdef readonly Durations durations
    cdef double _worst, _worst_before, _window_end

    cpdef int note(self, double now, double begun) except -1
    @cython.locals(late=bint)
    cdef _next_window(self, double now)
