# The compiler's view of ringer.py: types only, never behaviour.
cimport cython

cdef extern from "unistd.h":
    long syscall(long number, size_t address, int operation, int count) noexcept

cdef enum:
    WAKE = 1
    ALL = 2147483647

@cython.final
cdef class Ringer:
    cdef long number
    cdef size_t address

    cpdef ring(self)
