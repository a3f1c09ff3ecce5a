# The compiler's view of subject_table.py: types only, never behaviour.
cimport cython
from sequencer.journal.record cimport RECORD, Walk

cdef enum:
    END = 4
    GAP = 5

cdef enum:
    PLACE_BITS = 34
    NUMBER_BITS = 30

@cython.final
cdef class SubjectTable:
    cdef readonly unsigned long long first, next
    cdef readonly Py_ssize_t end, last_at
    cdef readonly bint full
    cdef bytes subject
    cdef bint single, pending
    cdef dict entries
    cdef Py_ssize_t only_size, only_at
    cdef readonly Py_ssize_t text
    cdef unsigned long long only_number, pick

    @cython.locals(state=int)
    cpdef int add_records(self, Walk walk, Py_ssize_t base, unsigned long long last) except -1
    cpdef skip(self, unsigned long long number)
    cpdef go_on_at(self, Py_ssize_t offset)
    cpdef find(self, bytes subject)
    @cython.locals(size=Py_ssize_t, subject_at='const unsigned char *',
                   before='const unsigned char *', same=bint)
    cdef int _note(self, Walk walk, Py_ssize_t at) except -1
    cdef int _settle(self) except -1
    cdef tuple _unpack(self, unsigned long long pick)
    cdef int _give_up(self) except -1
