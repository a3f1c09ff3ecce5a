# The compiler's view of arrival_tally.py: types only, never behaviour.
cimport cython
from seriatim.bench.latency_table cimport LatencyTable

cdef enum:
    RUN_SHIFT = 48
    PUBLISHER_SHIFT = 36
    PUBLISHER_MASK = 4095
    DIGITS_MAX = 18

@cython.final
cdef class ArrivalTally:
    cdef unsigned long long run, mask, publishers
    cdef Py_ssize_t size
    cdef bint is_framed
    cdef LatencyTable latencies
    cdef readonly long long messages, payload_bytes, reached, repeated, foreign, disordered
    cdef readonly long long first, last
    cdef bytearray table
    cdef long long *next

    @cython.locals(data='const unsigned char *', head=Py_ssize_t, line=Py_ssize_t,
                   body=Py_ssize_t, word=Py_ssize_t, stop=Py_ssize_t)
    cpdef Py_ssize_t scan(self, bytearray buffer, Py_ssize_t at, Py_ssize_t end,
                          long long now) except -1
    cdef Py_ssize_t _word(self, const unsigned char *data, Py_ssize_t least,
                          Py_ssize_t end) noexcept
    @cython.locals(value='long long')
    cdef long long _decimal(self, const unsigned char *data, Py_ssize_t at,
                            Py_ssize_t stop) noexcept
    @cython.locals(at=Py_ssize_t, key='unsigned long long', publisher='unsigned long long',
                   sequence='long long', expected='long long')
    cdef int _count(self, const unsigned char *data, Py_ssize_t body, Py_ssize_t stop,
                    long long now) except -1
    @cython.locals(colon=Py_ssize_t, comma=Py_ssize_t, number='long long', size='long long')
    cdef Py_ssize_t _unframe(self, const unsigned char *data, Py_ssize_t body,
                             Py_ssize_t stop) noexcept
    @cython.locals(value='unsigned long long', place=Py_ssize_t)
    cdef unsigned long long _read(self, const unsigned char *data, Py_ssize_t at) noexcept
