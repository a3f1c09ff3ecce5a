# The compiler's view of sublist.py: types only, never behaviour.
cimport cython
from sublist.digest cimport KEYS, digest_span
from sublist.pattern_set cimport PatternSet
from sublist.route cimport HEAD_SIZE, Fanout, Kinds, Route, new_route
from sublist.subject cimport covers, has_wildcard
from sublist.subscription cimport Subscription
from sublist.trie cimport Node, Trie, collect

cdef extern from *:
    void __builtin_prefetch(const void *address) noexcept
    void *PyList_GET_ITEM(list items, Py_ssize_t at) noexcept

cdef extern from "same.h":
    bint same_text(const unsigned char *one, const unsigned char *other, Py_ssize_t size) noexcept

cdef enum:
    SLOTS_MIN = 1024
    NEAR = 131072
    SEEN = 65536
    WAYS = 4
    ROUTE_SIZE = 160
    REPLIES = 256
    CHAIN_MAX = 16
    SUBJECT_MAX = 255
    PASSING_KIND = 0x80
    CHANGES_MAX = 64
    SHARED_MAX = 4096
    LONG = 64
    ENTRIES_MAX = 1048576
    SHALLOW = 10
    NODE_WORK = 8

@cython.final
cdef class Sublist:
    cdef readonly Trie trie
    cdef readonly Kinds kinds
    cdef list slots, changes, replies
    cdef Route recent
    cdef dict shared
    cdef readonly Py_ssize_t max_routes, routes
    cdef public Py_ssize_t max_match_nodes
    cdef unsigned int mask
    cdef unsigned long long keys[KEYS]
    cdef bytearray seen_store
    cdef unsigned int *seen
    cdef Py_ssize_t text, filters, sweep_slot, entries_made, wildcards_removed
    cdef readonly Py_ssize_t work
    cdef long long generation
    cdef readonly unsigned long long inserts, removes, misses, passed, rechecks, resolves, evictions

    @cython.locals(route=Route, recent=Route, digest='unsigned int')
    cdef Route find(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t size)
    @cython.locals(route=Route, subject=bytes, digest='unsigned int')
    cdef Route reach(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t size)
    @cython.locals(digest='unsigned int')
    cdef void fetch(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept
    @cython.locals(route=Route, digest='unsigned int')
    cpdef Route route(self, bytes subject)
    cpdef unsigned int digest_of(self, bytes subject) except? 0
    cpdef insert(self, Subscription sub)
    cpdef remove(self, Subscription sub)
    @cython.locals(most=Py_ssize_t)
    cpdef bint admits(self, bytes subject) except -1
    @cython.locals(route=Route, digest='unsigned int')
    cdef _changed(self, bytes subject)
    @cython.locals(oldest='long long')
    cdef Route _recheck(self, Route route)
    @cython.locals(trie=Trie, literal=Subscription, nodes=list, found=list)
    cdef Fanout _resolve(self, bytes subject, bint kept=*)
    @cython.locals(first=Node, alone=bint, key=tuple, fanout=Fanout, found=list)
    cdef Fanout _shared_by(self, list nodes)
    @cython.locals(fanout=Fanout)
    cdef Fanout _shared(self, tuple key, list found)
    @cython.locals(first='unsigned int', place='unsigned int')
    cdef bint _comes_again(self, unsigned int digest) except -1
    cdef Py_ssize_t _route_bytes(self) except -1
    @cython.locals(route=Route, other=Route, chain=Py_ssize_t, kind=int, passing=int, kept=bint, slot='unsigned int')
    cdef Route _learn(self, bytes subject, unsigned int digest)
    @cython.locals(route=Route, onward=Route, slots=list, mask='unsigned int')
    cdef _widen(self)
    @cython.locals(count=Py_ssize_t)
    cdef _sweep(self)
    @cython.locals(route=Route, fanout=Fanout, most=Py_ssize_t, total=Py_ssize_t, count=Py_ssize_t, size=Py_ssize_t)
    cpdef tuple fanout_sizes(self)
    cpdef forget_routes(self)
    cdef _clear(self)
    @cython.locals(route=Route, onward=Route, kept=Route, slot=Py_ssize_t, oldest='long long')
    cdef _forget_stale(self)
    cdef _count_made(self, Py_ssize_t entries, bint kept)
    @cython.locals(route=Route)
    cdef _forget(self, Py_ssize_t slot)

cdef bint serves(Route route, const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept

@cython.locals(sub=Subscription, kept=list)
cdef list undenied(list found, bytes subject)

cdef Fanout fan_out(list found)
@cython.locals(sub=Subscription, plain=list, groups=dict)
cdef Fanout group_out(list found)
