# The compiler's view of digits.py: types only, never behaviour.
cimport cython

cdef enum:
    WIDTH_MAX = 20
    NETSTRING_MAX = 23

cdef const unsigned char *PAIRS

@cython.locals(width=Py_ssize_t)
cdef Py_ssize_t width_of(unsigned long long value) noexcept
@cython.locals(width=Py_ssize_t)
cdef Py_ssize_t inner_size(unsigned long long number, Py_ssize_t size) noexcept
@cython.locals(inner=Py_ssize_t)
cdef Py_ssize_t frame_size(unsigned long long number, Py_ssize_t size) noexcept
@cython.locals(end=Py_ssize_t, two='unsigned int')
cdef Py_ssize_t write_decimal(unsigned char *out, Py_ssize_t at, unsigned long long value) noexcept
cdef Py_ssize_t write_netstring(unsigned char *out, Py_ssize_t at, unsigned long long value) noexcept
