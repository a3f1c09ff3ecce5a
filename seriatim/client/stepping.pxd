# The compiler's view of stepping.py: types only, never behaviour.
cimport cython
from seriatim.client.stream_message cimport Message

cdef extern from "given.h":
    object given_of(object value, object spare)

# Not final: the readers are subclasses.
cdef class BatchStepper:
    cdef public bint _keeps, _is_noted
    cdef public list _batch
    cdef public Py_ssize_t _at
    cdef public object _current
    cdef object _given
