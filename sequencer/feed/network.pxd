# The compiler's view of network.py: types only, never behaviour.
cimport cython

@cython.locals(end=Py_ssize_t)
cdef Py_ssize_t write_number(unsigned char *out, Py_ssize_t at, int size,
                             unsigned long long value) noexcept
@cython.locals(value='unsigned long long', index=Py_ssize_t)
cdef unsigned long long read_number(const unsigned char *data, Py_ssize_t at, int size) noexcept
