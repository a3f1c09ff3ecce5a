# The compiler's view of subject.py: types only, never behaviour.
cimport cython

cdef enum:
    DIGEST_BASIS = 2166136261
    DIGEST_PRIME = 16777619
    DIGEST_MASK = 0xFFFFFFFF

@cython.locals(text='const unsigned char *', size=Py_ssize_t, at=Py_ssize_t, begin=Py_ssize_t)
cpdef bint is_pattern(bytes subject)

@cython.locals(text='const unsigned char *', size=Py_ssize_t, at=Py_ssize_t, begin=Py_ssize_t)
cpdef bint is_literal(bytes subject)

@cython.locals(text='const unsigned char *', size=Py_ssize_t, at=Py_ssize_t, begin=Py_ssize_t)
cpdef bint has_wildcard(bytes subject)

@cython.locals(wanted='const unsigned char *', given='const unsigned char *',
               wanted_size=Py_ssize_t, given_size=Py_ssize_t, at=Py_ssize_t, on=Py_ssize_t, last=bint)
cpdef bint covers(bytes pattern, bytes subject)

@cython.locals(text='const unsigned char *', value='unsigned int', at=Py_ssize_t)
cpdef unsigned int digest_of(bytes subject)
