# The compiler's view of trie.py: types only, never behaviour.
cimport cython

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object) noexcept
from sublist.route cimport Fanout
from sublist.subject cimport covers, has_wildcard
from sublist.subscription cimport Subscription

cdef enum:
    FEW = 16
    MANY = 16384
    GROW_WORK = 4

@cython.final
cdef class Node:
    cdef Py_ssize_t cost
    cdef dict below
    cdef Node star, tail
    cdef Subscription first
    cdef Fanout fanout

@cython.final
cdef class Trie:
    cdef dict literals
    cdef Node root
    cdef readonly Py_ssize_t patterns, subscriptions, visited, handled
    cdef Py_ssize_t credit

    @cython.locals(node=Node, first=Subscription, tokens=list, known=list)
    cpdef insert(self, Subscription sub)
    @cython.locals(node=Node, first=Subscription, tokens=list, path=list)
    cpdef remove(self, Subscription sub)
    cpdef Py_ssize_t worst(self)
    @cython.locals(tokens=list)
    cpdef Py_ssize_t cost_with(self, bytes subject)
    @cython.locals(node=Node, child=Node, path=list)
    cdef list _known(self, list tokens)
    @cython.locals(child=Node, count=Py_ssize_t)
    cdef Node _grow(self, Node node, list tokens, Py_ssize_t depth)
    @cython.locals(node=Node, depth=Py_ssize_t, before=Py_ssize_t, after=Py_ssize_t,
                   cost=Py_ssize_t, beside=Py_ssize_t)
    cdef Py_ssize_t _climb(self, list known, list tokens, bint commit) except -1
    @cython.locals(node=Node, parent=Node, depth=Py_ssize_t, before=Py_ssize_t,
                   after=Py_ssize_t, cost=Py_ssize_t, beside=Py_ssize_t)
    cdef _prune(self, list path, list tokens)
    @cython.locals(child=Node, count=Py_ssize_t, most=Py_ssize_t)
    cdef Py_ssize_t _dearest(self, Node node, Py_ssize_t before) except -1
    @cython.locals(sub=Subscription, found=list)
    cpdef list literal(self, bytes subject)
    @cython.locals(found=list)
    cpdef list wild(self, bytes subject)
    cpdef bint takes(self, bytes subject) except -1
    @cython.locals(node=Node, child=Node, found=list, text='const unsigned char *',
                   size=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t)
    cdef list nodes(self, bytes subject)
    @cython.locals(node=Node, child=Node, token=bytes, onward=list, text='const unsigned char *',
                   size=Py_ssize_t, end=Py_ssize_t)
    cdef list _spread(self, list frontier, bytes subject, Py_ssize_t at, list found)

cdef Py_ssize_t end_of_token(const unsigned char *text, Py_ssize_t at, Py_ssize_t size) noexcept
@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t chain_cost(list tokens, Py_ssize_t depth) except -1
@cython.locals(sub=Subscription)
cdef collect(Subscription first, list found)
@cython.locals(first=Subscription)
cdef Subscription without(Subscription first, Subscription sub)
