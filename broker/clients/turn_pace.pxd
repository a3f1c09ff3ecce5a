# The compiler's view of turn_pace.py: types only, never behaviour.
cimport cython

cdef enum:
    TRY = 0
    GATHER = 1
    REST = 2

@cython.final
cdef class TurnPace:
    cdef readonly double gap_max
    cdef public double gap, begun
    cdef public int dense
    cdef readonly int phase, left, rest
    cdef int halves
    cdef bint counts
    cdef long long after_none, after_half, after_whole

    @cython.locals(early=double)
    cpdef double delay(self, double now) noexcept
    @cython.locals(small=double)
    cpdef int end(self, double begun, double served, double now, Py_ssize_t size) noexcept
    cdef int _go_on(self) noexcept
    cdef int _begin(self, int phase, int turns) noexcept
