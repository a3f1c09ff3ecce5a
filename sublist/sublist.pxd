# The compiler's view of sublist.py: types only, never behaviour.
cimport cython
from sublist.route cimport Fanout, Route, new_route, serves
from sublist.subject cimport covers, digest_of, has_wildcard
from sublist.subscription cimport Subscription
from sublist.trie cimport Trie

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept
    void *PyList_GET_ITEM(list items, Py_ssize_t at) noexcept

cdef enum:
    SLOTS_MIN = 1024
    REPLIES = 256
    CHAIN_MAX = 16
    SUBJECT_MAX = 255
    CHANGES_MAX = 64
    SHARED_MAX = 4096
    LONG = 64
    ENTRIES_MAX = 1048576
    SHALLOW = 10
    NODE_WORK = 8

@cython.final
cdef class Sublist:
    cdef readonly Trie trie
    cdef readonly object classify
    cdef list slots, changes, replies
    cdef dict shared
    cdef readonly Py_ssize_t max_routes, routes
    cdef public Py_ssize_t max_match_nodes
    cdef unsigned int mask
    cdef Py_ssize_t sweep_slot, entries_made, wildcards_removed
    cdef readonly Py_ssize_t work
    cdef long long generation
    cdef readonly unsigned long long inserts, removes, misses, rechecks, resolves, evictions

    @cython.locals(route=Route)
    cdef Route find(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t size, unsigned int digest)
    @cython.locals(route=Route, subject=bytes)
    cdef Route reach(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t size,
                     unsigned int digest)
    cdef void fetch(self, unsigned int digest) noexcept
    @cython.locals(route=Route, digest='unsigned int')
    cpdef Route route(self, bytes subject)
    cpdef insert(self, Subscription sub)
    cpdef remove(self, Subscription sub)
    @cython.locals(most=Py_ssize_t)
    cpdef bint admits(self, bytes subject) except -1
    @cython.locals(route=Route)
    cdef _changed(self, bytes subject)
    @cython.locals(oldest='long long')
    cdef Route _recheck(self, Route route)
    @cython.locals(wild=list, literal=list, fanout=Fanout)
    cdef Fanout _resolve(self, bytes subject)
    @cython.locals(route=Route, other=Route, chain=Py_ssize_t, kind=int, slot='unsigned int')
    cdef Route _learn(self, bytes subject, unsigned int digest)
    @cython.locals(route=Route, onward=Route, slots=list, mask='unsigned int')
    cdef _widen(self)
    @cython.locals(count=Py_ssize_t)
    cdef _sweep(self)
    cdef _clear(self)
    @cython.locals(route=Route, onward=Route, kept=Route, slot=Py_ssize_t, oldest='long long')
    cdef _forget_stale(self)
    cdef _count_long(self, Py_ssize_t entries)
    @cython.locals(route=Route)
    cdef _forget(self, Py_ssize_t slot)

@cython.locals(sub=Subscription, plain=list, groups=dict)
cdef Fanout fan_out(list found)
