# The compiler's view of time_text.py: types only, never behaviour.
cimport cython

cdef enum:
    SECOND_NS = 1000000000
    DAY_S = 86400
    TIME_SIZE = 30

@cython.final
cdef class TimeText:
    cdef bytearray text
    cdef unsigned char *data
    cdef unsigned long long ns, second, day

    @cython.locals(second='unsigned long long', rest='unsigned int', at=Py_ssize_t)
    cdef int write(self, unsigned long long ns) except -1
    @cython.locals(day='unsigned long long', left='unsigned int')
    cdef int _write_second(self, unsigned long long second) except -1
    cdef void _write_pair(self, Py_ssize_t at, unsigned int value) noexcept

cpdef bytes timestamp(unsigned long long ns)
