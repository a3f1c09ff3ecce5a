# The compiler's view of ledger.py: types only, never behaviour.
cimport cython

cdef enum:
    STORED = 30
    HEADERED = 4
    SPARE = 131072

@cython.final
cdef class SubjectEntry:
    cdef readonly unsigned long long first, last, count, size

@cython.final
cdef class SubjectTotal:
    cdef public long long most, count, left_out

@cython.final
cdef class Ledger:
    cdef readonly object stream
    cdef readonly bytes acknowledgement, scope
    cdef readonly SubjectTotal total
    cdef public unsigned long long next, window
    cdef public bint acknowledges, is_whole
    cdef readonly unsigned long long messages, size, first, first_time, last, last_time
    cdef public list watchers
    cdef readonly dict entries
    cdef readonly set deleted
    cdef public object belongs

    @cython.locals(entry=SubjectEntry)
    cpdef int note(self, bytes subject, unsigned long long number, unsigned long long time,
                   unsigned long long size) except -1
    cpdef bint is_closed_to(self, bytes subject) except -1
    cpdef int note_whole(self, unsigned long long number, unsigned long long time,
                         unsigned long long size) except -1
    cpdef set_whole(self, unsigned long long first, unsigned long long first_time,
                    unsigned long long last, unsigned long long last_time,
                    unsigned long long size)
    @cython.locals(entry=SubjectEntry)
    cpdef restore_entry(self, bytes subject, unsigned long long first, unsigned long long last,
                        unsigned long long count, unsigned long long size)
    cpdef restore(self, unsigned long long taken, unsigned long long messages,
                  unsigned long long size, unsigned long long first,
                  unsigned long long first_time, unsigned long long last,
                  unsigned long long last_time)
    @cython.locals(entry=SubjectEntry)
    cpdef bint drop(self, bytes subject, unsigned long long number, unsigned long long size,
                    bint below) except -1
    cpdef bint shows(self, bytes subject, unsigned long long number) except -1
    cdef SubjectEntry entry(self, bytes subject)
    cdef bint shows_in(self, SubjectEntry entry, bytes subject, unsigned long long number) except -1
    @cython.locals(count='unsigned long long')
    cpdef unsigned long long clear(self) except? 0
    @cython.locals(entry=SubjectEntry)
    cpdef unsigned long long forget_subject(self, bytes subject) except? 0
    cpdef lower_last(self, bytes subject, unsigned long long number)
    cpdef begin_with(self, unsigned long long number, unsigned long long time)
    cpdef unsigned long long last_of(self, bytes subject) except? 0
    cpdef unsigned long long count_of(self, bytes subject) except? 0
    cpdef unsigned long long begins(self, bytes subject) except? 0

@cython.locals(entry=SubjectEntry)
cdef SubjectEntry new_entry(unsigned long long number)
cpdef unsigned long long stored_size(Py_ssize_t subject_size, Py_ssize_t size,
                                     Py_ssize_t header_size) noexcept
