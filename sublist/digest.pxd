# The compiler's view of digest.py: types only, never behaviour.
cimport cython

cdef enum:
    KEYS = 4

cdef extern from "digest.h":
    unsigned int digest_span(const unsigned long long *keys, const unsigned char *data,
                             Py_ssize_t start, Py_ssize_t size) noexcept
