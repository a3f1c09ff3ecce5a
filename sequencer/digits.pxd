# The compiler's view of digits.py: types only, never behaviour.
cimport cython

@cython.locals(width=Py_ssize_t)
cdef Py_ssize_t width_of(unsigned long long value) noexcept
@cython.locals(width=Py_ssize_t)
cdef Py_ssize_t inner_size(unsigned long long number, Py_ssize_t size) noexcept
@cython.locals(inner=Py_ssize_t)
cdef Py_ssize_t frame_size(unsigned long long number, Py_ssize_t size) noexcept
