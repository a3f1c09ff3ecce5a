# The compiler's view of deliverer.py: types only, never behaviour.
cimport cython
from broker.dataplane.stream_table cimport RecordWatcher
from broker.streams.pace cimport FlowWindow, RateLimit, ReplayTimes
from broker.streams.pending_table cimport ABSENT, PendingTable
from broker.streams.pull_requests cimport PullRequest, WaitingQueue
from sequencer.digits cimport WIDTH_MAX, write_decimal
from sublist.pattern_set cimport PatternSet

cdef extern from "copy.h":
    void copy_span(unsigned char *to, const unsigned char *source, size_t size) noexcept

cdef enum:
    STOP = 0
    DELIVER = 1
    FIRST = 2
    THEN = 4

cdef enum:
    NOTHING = 0
    ACKS = 1
    WINDOW = 2
    TIME = 3
    DEMAND = 4

cdef enum:
    ACKED = 1
    ROOM = 2

cdef enum:
    DIGITS = 120

# Not final: a method that overrides another cannot be.
cdef class Deliverer(RecordWatcher):
    cdef public object consumer
    cdef readonly bint kept
    cdef public bint is_listed, headers_only, is_shared
    cdef public bytes filter
    cdef public PatternSet filters
    cdef public tuple listeners
    cdef readonly bytearray reply
    cdef unsigned char *reply_data
    cdef Py_ssize_t prefix_size
    cdef readonly Py_ssize_t reply_size
    cdef unsigned long long time
    cdef bytearray time_text
    cdef unsigned char *time_data
    cdef Py_ssize_t time_size
    cdef public object target, push_target
    cdef readonly bint with_acks
    cdef readonly PendingTable table
    cdef readonly WaitingQueue waiting
    cdef public FlowWindow window
    cdef public RateLimit limit
    cdef public ReplayTimes times
    cdef public bint is_open, is_counting, acks_all, changed
    cdef public unsigned long long ack_wait
    cdef public tuple backoff
    cdef public long long most_pending
    cdef readonly int held_by
    cdef public long long held_until, delivered_at, acked_at
    cdef object list
    cdef readonly Py_ssize_t list_at, list_size
    cdef public unsigned long long position, number, delivered
    cdef readonly unsigned long long again, resume
    cdef unsigned long long empty_at, after_empty
    cdef public long long ahead

    cpdef unsigned long long wanted(self, long long now) except? 0
    cpdef bint matched(self, unsigned long long number) except -1
    cpdef int skip(self, unsigned long long number) except -1
    cdef int _skip_in_list(self, unsigned long long number) except -1
    @cython.locals(outcome=int)
    cpdef int offer(self, unsigned long long number, unsigned long long time, long long size,
                    long long now) except -1
    @cython.locals(outcome=int, place=Py_ssize_t, deliveries='unsigned long long')
    cdef int _offer_again(self, unsigned long long number, unsigned long long time, long long size,
                          long long now) except -1
    cpdef unsigned long long wait_after(self, Py_ssize_t deliveries) except? 0
    @cython.locals(outcome=int, total='long long', due='long long', request=PullRequest)
    cdef int _admit(self, unsigned long long number, unsigned long long time, long long size,
                    long long now) except -1
    cdef int _hold(self, int why, long long until) except -1
    @cython.locals(raw='unsigned char *', at=Py_ssize_t, dot='unsigned char')
    cdef int _write_reply(self, unsigned long long deliveries, unsigned long long number,
                          unsigned long long time, long long pending) except -1
    @cython.locals(place=Py_ssize_t, was_full=bint)
    cpdef int ack(self, unsigned long long number, unsigned long long consumer,
                  unsigned long long time, long long now) except -1
