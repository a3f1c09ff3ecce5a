# The compiler's view of group_shares.py: types only, never behaviour.
cimport cython
from sequencer.replica.group_draw cimport draw
from sublist.subscription cimport Subscription
from sublist.trie cimport Trie

cdef enum:
    SHARES_MAX = 65536

@cython.final
cdef class GroupShare:
    cdef readonly unsigned long long low, high, total, seed

@cython.final
cdef class GroupShares:
    cdef readonly str member
    cdef readonly object weights
    cdef Trie trie
    cdef dict known, shares, groups
    cdef unsigned long long until, unknown_until
    cdef readonly unsigned long long begun

    cpdef reload_notes(self)
    cpdef advance(self, unsigned long long number)
    cpdef settle(self, unsigned long long delivered, unsigned long long note_watermark)
    cdef _begin_next(self)
    @cython.locals(share=GroupShare, point='unsigned long long')
    cpdef bint takes(self, unsigned long long number, bytes subject, bytes group) except -1
    @cython.locals(share=GroupShare, sub=Subscription)
    cdef GroupShare _share_of(self, bytes subject, bytes group)
    cpdef tuple takers(self, bytes subject)
    @cython.locals(sub=Subscription, counts=dict)
    cdef tuple _takers_of(self, bytes subject)
    @cython.locals(known=Subscription, made=Subscription)
    cdef _know(self, str pattern, str group, bint has_takers)
