# The compiler's view of subject.py: types only, never behaviour.
cimport cython

@cython.locals(text='const unsigned char *', size=Py_ssize_t, at=Py_ssize_t, begin=Py_ssize_t)
cpdef bint is_pattern(bytes subject)

@cython.locals(text='const unsigned char *', size=Py_ssize_t, at=Py_ssize_t, begin=Py_ssize_t)
cpdef bint is_literal(bytes subject)

@cython.locals(text='const unsigned char *', size=Py_ssize_t, at=Py_ssize_t, begin=Py_ssize_t)
cpdef bint has_wildcard(bytes subject)

cpdef bint covers(bytes pattern, bytes subject)

cdef extern from "same.h":
    Py_ssize_t same_size(const unsigned char *one, const unsigned char *other,
                         Py_ssize_t size) noexcept

@cython.locals(at=Py_ssize_t, on=Py_ssize_t, end=Py_ssize_t, last=bint)
cdef bint takes(const unsigned char *wanted, Py_ssize_t wanted_size,
                const unsigned char *given, Py_ssize_t start, Py_ssize_t given_size) noexcept

@cython.locals(after_dot=bint)
cdef bint is_whole(const unsigned char *text, Py_ssize_t at, Py_ssize_t size) noexcept
