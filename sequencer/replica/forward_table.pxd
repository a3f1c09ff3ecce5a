# The compiler's view of forward_table.py: types only, never behaviour.
cimport cython
from sequencer.journal.record cimport BAD, ID_FLAG, MORE, RECORD, Walk
from sequencer.message cimport Message
from sequencer.replica.forward_copies cimport ForwardCopies

cdef enum:
    ROWS_MIN = 1024
    ROWS_KEPT = 65536
    STRANGERS_MAX = 65536
    WASTE_MAX = 1073741824

@cython.final
cdef class ForwardTable:
    cdef readonly unsigned int run
    cdef readonly ForwardCopies copies
    cdef Walk walk, copy_walk
    cdef readonly unsigned long long placed, settled
    cdef readonly unsigned long long forwarded, forwarded_again, marked
    cdef unsigned long long forgotten, base, sent, tried, looked, replied
    cdef readonly Py_ssize_t in_flight
    cdef Py_ssize_t room
    cdef bytearray table
    cdef unsigned long long *numbers
    cdef unsigned long long *origins
    cdef unsigned long long *sequences
    cdef unsigned long long *times
    cdef unsigned long long *ats
    cdef unsigned long long first_time, last_time, wasted
    cdef bint has_ids, has_strangers
    cdef set strangers

    @cython.locals(at='unsigned long long', row=Py_ssize_t)
    cpdef unsigned long long put(self, Message message, unsigned long long steady) except 0
    @cython.locals(row=Py_ssize_t)
    cpdef unsigned long long note(self, unsigned long long number, unsigned long long origin=*,
                                  unsigned long long sequence=*,
                                  unsigned long long steady=*) except 0
    cpdef known(self, unsigned long long place, unsigned long long number)
    @cython.locals(walk=Walk, last='unsigned long long', tried='unsigned long long')
    cpdef inspect(self, object data, unsigned long long first, unsigned int epoch)
    @cython.locals(place='unsigned long long')
    cpdef bint answered(self, unsigned long long origin, unsigned long long sequence,
                        unsigned long long number) except -1
    cpdef rewind(self)
    @cython.locals(place='unsigned long long', first='unsigned long long',
                   start='unsigned long long', at='unsigned long long',
                   size=Py_ssize_t, length=Py_ssize_t)
    cpdef bytes unsent(self, Py_ssize_t most)
    @cython.locals(place='unsigned long long', row=Py_ssize_t)
    cpdef void_above(self, unsigned long long number, object cut)
    @cython.locals(place='unsigned long long', row=Py_ssize_t, number='unsigned long long')
    cpdef unsigned long long settle(self, unsigned long long watermark) except? 0
    cpdef unsigned long long number_of(self, unsigned long long place) except? 0
    @cython.locals(live=Py_ssize_t)
    cpdef free_up_to(self, unsigned long long place)
    @cython.locals(place='unsigned long long', row=Py_ssize_t)
    cpdef expired(self, unsigned long long before)
    @cython.locals(place='unsigned long long', row=Py_ssize_t)
    cpdef drop(self, frozenset origins)
    @cython.locals(place='unsigned long long')
    cpdef unsigned long long next_unnumbered(self, unsigned long long after) except? 0
    cpdef Walk message_at(self, unsigned long long place)

    @cython.locals(row=Py_ssize_t)
    cdef Py_ssize_t _add_row(self, unsigned long long number, unsigned long long origin,
                             unsigned long long sequence) except -1
    @cython.locals(live=Py_ssize_t)
    cdef int _make_room(self) except -1
    @cython.locals(first=Py_ssize_t, live=Py_ssize_t, row=Py_ssize_t, table=bytearray,
                   words='unsigned long long *', numbers='unsigned long long *',
                   origins='unsigned long long *', sequences='unsigned long long *',
                   times='unsigned long long *', ats='unsigned long long *')
    cdef int _move_rows(self, Py_ssize_t room) except -1
    @cython.locals(walk=Walk, number='unsigned long long', time='unsigned long long', ids=bint)
    cdef unsigned long long _inspect(self, unsigned long long first,
                                     unsigned int epoch) except? 0
    @cython.locals(place='unsigned long long')
    cdef int _mark(self, unsigned long long origin, unsigned long long sequence,
                   unsigned long long number) except -1
    @cython.locals(row=Py_ssize_t, length=Py_ssize_t)
    cdef int _arrive(self, unsigned long long place) except -1
    @cython.locals(row=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, stranger=bint)
    cdef unsigned long long _find(self, unsigned long long after, unsigned long long origin,
                                  unsigned long long sequence) except? 0
    cdef _refuse(self)
    cdef bint _is_stranger(self, unsigned long long origin) except -1
    cdef int _remember_stranger(self, unsigned long long origin) except -1
    cdef _meet(self, unsigned long long origin)
    cdef _forget_strangers(self)
    @cython.locals(place='unsigned long long', row=Py_ssize_t, has_copy=bint)
    cdef int _void(self, unsigned long long number) except -1
    @cython.locals(before=ForwardCopies, walk=Walk, old=Walk, row=Py_ssize_t, state=int,
                   place='unsigned long long', own='unsigned long long', at='unsigned long long')
    cdef _copy_again(self, unsigned long long number, object cut)
    @cython.locals(place='unsigned long long', row=Py_ssize_t)
    cdef _origins(self, unsigned long long last)
    @cython.locals(walk=Walk, state=int)
    cdef _complaint(self, unsigned long long number, unsigned int epoch)
