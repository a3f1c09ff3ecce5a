# The compiler's view of pattern_set.py: types only, never behaviour.
cimport cython
from sublist.subject cimport covers, has_wildcard
from sublist.subscription cimport Subscription
from sublist.trie cimport Trie

@cython.final
cdef class PatternSet:
    cdef readonly tuple patterns
    cdef Trie trie
    cdef list wild, parted

    cpdef bint takes(self, bytes subject) except -1

cpdef bint hears(Subscription sub, bytes subject) except -1
