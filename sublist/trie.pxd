# The compiler's view of trie.py: types only, never behaviour.
cimport cython

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object) noexcept
from sublist.subscription cimport Subscription
from sublist.subject cimport has_wildcard

@cython.final
cdef class Node:
    cdef dict below
    cdef Node star, tail
    cdef Subscription first

@cython.final
cdef class Trie:
    cdef dict literals
    cdef Node root
    cdef readonly Py_ssize_t patterns, subscriptions, visited

    @cython.locals(node=Node, first=Subscription)
    cpdef insert(self, Subscription sub)
    @cython.locals(node=Node, first=Subscription, tokens=list, path=list)
    cpdef remove(self, Subscription sub)
    @cython.locals(node=Node, child=Node)
    cdef Node _grow(self, bytes subject)
    @cython.locals(node=Node, child=Node, path=list)
    cdef list _path(self, list tokens)
    @cython.locals(node=Node, parent=Node, depth=Py_ssize_t)
    cdef _prune(self, list path, list tokens)
    @cython.locals(sub=Subscription, found=list)
    cpdef list literal(self, bytes subject)
    @cython.locals(node=Node, child=Node, tokens=list, frontier=list, onward=list, found=list)
    cpdef list wild(self, bytes subject)


@cython.locals(sub=Subscription)
cdef collect(Subscription first, list found)
@cython.locals(first=Subscription)
cdef Subscription without(Subscription first, Subscription sub)
