# The compiler's view of numbering.py: types only, never behaviour.
cimport cython
from sequencer.journal.record cimport ID_FLAG, RECORD, SCOPE_FLAG, Walk
from sequencer.message cimport Message
from sequencer.replica.forward_table cimport ForwardTable
from sequencer.sequencer cimport Sequencer

@cython.final
cdef class Numbering:
    cdef readonly ForwardTable table
    cdef readonly Sequencer sequencer
    cdef readonly object window
    cdef Walk walk
    cdef readonly bint is_coordinator, has_unnumbered
    cdef bint repeated
    cdef public bint has_known_ids
    cdef readonly unsigned long long ids_from

    @cython.locals(number='unsigned long long', place='unsigned long long')
    cpdef unsigned long long submit(self, Message message, unsigned long long now,
                                  unsigned long long steady=*) except? 0
    @cython.locals(walk=Walk, answers=list)
    cpdef tuple take_forwarded(self, object data, unsigned long long now, unsigned int run,
                               unsigned long long steady=*)
    cpdef void_above(self, unsigned long long number, object cut)
    @cython.locals(number='unsigned long long')
    cpdef committed(self, Walk walk, unsigned long long steady)
    cpdef forget_ids(self, unsigned long long before)

    cdef unsigned long long _number(self, Message message) except? 0
    @cython.locals(number='unsigned long long')
    cdef unsigned long long _number_once(self, Message message) except? 0
    @cython.locals(walk=Walk)
    cdef bint _take_next(self, unsigned int run) except -1
    @cython.locals(table=ForwardTable, count=Py_ssize_t, place='unsigned long long',
                   number='unsigned long long')
    cdef Py_ssize_t _reclaim(self) except -1
    @cython.locals(scope_size=Py_ssize_t, text='const char *', data='const char *')
    cdef bytes _key_of(self, Message message)

@cython.locals(text='const unsigned char *', left=Py_ssize_t, each='unsigned long long',
               found='unsigned long long', word='unsigned long long')
cpdef bint is_text(Message message) except -1
