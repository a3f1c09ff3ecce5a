# The compiler's view of stream_table.py: types only, never behaviour.
cimport cython
from broker.dataplane.ledger cimport Ledger, stored_size
from sequencer.journal.record cimport RECORD, Walk
from sequencer.message cimport Message
from sublist.route cimport Route
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription

cdef class RecordWatcher:
    cdef public Ledger ledger
    cdef public unsigned long long seen
    cdef public bint is_woken

    cpdef bint matched(self, unsigned long long number) except -1

cdef class AckTaker:
    cpdef bint take(self, Message message) except -1

@cython.final
cdef class StreamTable:
    cdef readonly Sublist subjects
    cdef Walk walk
    cdef public Ledger whole
    cdef readonly unsigned long long records, dropped, next
    cdef readonly int state
    cdef public list woken
    cdef public object wake
    cdef readonly unsigned long long last_safe
    cdef dict _subscriptions

    cpdef open_to(self, bytes pattern, ledger)
    cpdef close_to(self, bytes pattern, ledger)
    @cython.locals(plain=tuple)
    cdef Ledger find(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t size)
    cpdef Ledger stream_of(self, bytes subject)
    @cython.locals(watcher=RecordWatcher)
    cdef int _tell(self, list watchers, unsigned long long number) except -1
    @cython.locals(watcher=RecordWatcher, ledger=Ledger)
    cdef int _tell_filters(self, tuple plain, unsigned long long number) except -1
    cpdef int note_woken(self, RecordWatcher watcher) except -1
    @cython.locals(walk=Walk, subjects=Sublist, route=Route, ledger=Ledger, watched=bint)
    cpdef int add_records(self, object buffer, Py_ssize_t stop) except -1
    @cython.locals(walk=Walk, subjects=Sublist, route=Route, ledger=Ledger)
    cpdef Py_ssize_t take(self, bytearray buffer, Py_ssize_t stop, unsigned long long limit) except -1
    @cython.locals(walk=Walk, subjects=Sublist, route=Route, ledger=Ledger)
    cpdef Py_ssize_t leave(self, bytearray buffer, Py_ssize_t stop, unsigned long long limit) except -1
    cpdef int flush(self, unsigned long long safe) except -1
