# The compiler's view of sequencer.py: types only, never behaviour.
cimport cython

@cython.final
cdef class Sequencer:
    cdef readonly unsigned long long number

    cdef unsigned long long take(self) except 0
    cpdef release(self)
