# The compiler's view of kinds.py: types only, never behaviour.
cimport cython
from sublist.pattern_set cimport PatternSet
from sublist.route cimport Kinds
from sublist.subject cimport covers, is_literal

# Not final: a method that overrides another cannot be.
cdef class Classifier(Kinds):
    cdef PatternSet excluded
    cdef public Py_ssize_t max_tokens
    cdef bint streams, system

    cpdef bint is_deep(self, bytes subject) except -1
    @cython.locals(kind=int)
    cpdef int kind_of(self, bytes subject) except -1
    cdef int _broker_kind(self, bytes subject) except -1
