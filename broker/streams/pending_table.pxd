# The compiler's view of pending_table.py: types only, never behaviour.
cimport cython

cdef enum:
    WORDS = 4

cdef enum:
    SEQUENCE, NUMBER, DUE, REST

cdef enum:
    NEVER = 9223372036854775807

cdef enum:
    DEAD = 1
    ODD = 2
    READY = 4
    NOTED = 8
    FLAGS = 15
    ONE_DELIVERY = 16
    DELIVERIES = 268435455
    FLAG_BITS = 4
    TIME_BITS = 32
    LOW = 4294967295
    ABSENT = -1
    FEW = 16
    MANY = 1024

@cython.final
cdef class Words:
    cdef bytearray buffer
    cdef unsigned long long *data
    cdef Py_ssize_t room

    cdef int set_room(self, Py_ssize_t room) except -1
    cdef int grow(self, Py_ssize_t room, Py_ssize_t start, Py_ssize_t stop) except -1

@cython.final
cdef class DueHeap:
    cdef Words words
    cdef readonly Py_ssize_t size

    @cython.locals(data='unsigned long long *', at=Py_ssize_t, above=Py_ssize_t)
    cdef int push(self, unsigned long long due, unsigned long long sequence) except -1
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, below=Py_ssize_t, other=Py_ssize_t,
                   size=Py_ssize_t, due='unsigned long long', sequence='unsigned long long')
    cdef int drop_top(self) except -1
    cdef int forget_all(self) except -1

@cython.final
cdef class PendingTable:
    cdef readonly bint kept
    cdef Words words, ready
    cdef DueHeap heap
    cdef readonly list exhausted
    cdef list gone, again
    cdef readonly Py_ssize_t count, redelivered
    cdef Py_ssize_t front, end, fifo, ready_at, ready_end
    cdef unsigned long long noted

    cpdef forget_all(self)
    @cython.locals(data='unsigned long long *', at=Py_ssize_t)
    cpdef int track(self, unsigned long long sequence, unsigned long long number,
                     unsigned long long time, unsigned long long due) except -1
    @cython.locals(at=Py_ssize_t, flags=int)
    cpdef restore(self, unsigned long long sequence, unsigned long long number,
                  unsigned long long time, unsigned long long deliveries, unsigned long long due)
    @cython.locals(data='unsigned long long *', low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cpdef Py_ssize_t find(self, unsigned long long sequence) except -2
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, place=Py_ssize_t,
                   rest='unsigned long long', first='unsigned long long')
    cpdef Py_ssize_t check(self, unsigned long long sequence, unsigned long long number,
                           unsigned long long time, unsigned long long last) except -2
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, rest='unsigned long long')
    cpdef int ack(self, Py_ssize_t place) except -1
    @cython.locals(count=Py_ssize_t, sequence='unsigned long long')
    cpdef Py_ssize_t ack_through(self, Py_ssize_t place) except -1
    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t drop_below(self, unsigned long long sequence) except -1
    cpdef unsigned long long first_sequence(self) except? 0
    cpdef unsigned long long first_number(self) except? 0
    cpdef unsigned long long number_at(self, Py_ssize_t place) except? 0
    cpdef unsigned long long deliveries_at(self, Py_ssize_t place) except? 0
    cpdef unsigned long long due_at(self, Py_ssize_t place) except? 0
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, place=Py_ssize_t,
                   rest='unsigned long long', deliveries='unsigned long long')
    cpdef list rows(self)
    cpdef Py_ssize_t memory(self) except -1
    @cython.locals(data='unsigned long long *', at=Py_ssize_t)
    cpdef int hurry(self, Py_ssize_t place) except -1
    @cython.locals(data='unsigned long long *', at=Py_ssize_t)
    cpdef int postpone(self, Py_ssize_t place, unsigned long long due) except -1
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, rest='unsigned long long',
                   deliveries='unsigned long long')
    cpdef unsigned long long redeliver(self, Py_ssize_t place, unsigned long long due) except? 0
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, place=Py_ssize_t,
                   moved=Py_ssize_t, deliveries='unsigned long long')
    cpdef Py_ssize_t expire(self, unsigned long long now, unsigned long long most) except -1
    @cython.locals(rest='unsigned long long', place=Py_ssize_t)
    cpdef give_up(self, unsigned long long most)
    @cython.locals(place=Py_ssize_t)
    cpdef Py_ssize_t next_due(self) except? -1
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, place=Py_ssize_t,
                   last='unsigned long long')
    cpdef unsigned long long last_due(self) except? 0
    @cython.locals(sequence='unsigned long long', place=Py_ssize_t)
    cpdef unsigned long long next_ready(self) except? 0
    @cython.locals(data='unsigned long long *', place=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t count_ready(self) except -1
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, place=Py_ssize_t,
                   deliveries='unsigned long long')
    cpdef set_waits(self, object due_of)
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, place=Py_ssize_t,
                   rest='unsigned long long', deliveries='unsigned long long', new=list,
                   gone=list, again=list, last='unsigned long long',
                   last_number='unsigned long long')
    cpdef tuple take_changes(self, unsigned long long floor)
    @cython.locals(data='unsigned long long *', place=Py_ssize_t)
    cpdef forget_notes(self)
    @cython.locals(data='unsigned long long *', low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cdef Py_ssize_t _after_noted(self) except -1
    @cython.locals(data='unsigned long long *')
    cdef int _pass_dead(self) except -1
    @cython.locals(room=Py_ssize_t)
    cdef int _make_room(self) except -1
    @cython.locals(data='unsigned long long *', to=Py_ssize_t, fifo=Py_ssize_t, place=Py_ssize_t,
                   at=Py_ssize_t)
    cdef int _compact(self) except -1
    @cython.locals(data='unsigned long long *', heap=DueHeap, odd=Py_ssize_t, at=Py_ssize_t,
                   waits=bint,
                   first=Py_ssize_t, other=Py_ssize_t)
    cdef Py_ssize_t _first_due(self) except -2
    @cython.locals(data='unsigned long long *', at=Py_ssize_t, place=Py_ssize_t)
    cdef int _rebuild_heap(self) except -1
    cdef int _push_ready(self, unsigned long long sequence) except -1
    @cython.locals(data='unsigned long long *', words='unsigned long long *', to=Py_ssize_t,
                   at=Py_ssize_t, place=Py_ssize_t)
    cdef int _make_ready_room(self) except -1
