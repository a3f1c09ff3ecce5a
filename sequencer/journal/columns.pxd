# The compiler's view of columns.py: types only, never behaviour.
cimport cython
from sequencer.journal.record cimport RECORD, Walk

cdef enum:
    FULL = 3
    END = 4
    GAP = 5

cdef enum:
    NUMBER = 1
    TIME = 2
    SUBJECT = 4
    REPLY = 8
    HEADERS = 16
    PAYLOAD = 32

cdef enum:
    FRAME_SIZE = 192
    ROOM_MIN = 4096
    ROWS_MIN = 256
    KNOWN_SIZE = 100
    KNOWN_MIN = 65536

@cython.final
cdef class ColumnBuffer:
    cdef bytearray offsets, buffer
    cdef unsigned char *ends
    cdef unsigned char *data
    cdef Py_ssize_t room, size

    @cython.locals(end=Py_ssize_t)
    cdef int put(self, Py_ssize_t row, const unsigned char *source, Py_ssize_t at,
                    Py_ssize_t size) except -1
    cdef int make_rows(self, Py_ssize_t rows) except -1
    cdef int clear(self, Py_ssize_t room_max) except -1
    @cython.locals(room=Py_ssize_t)
    cdef int _make_room(self, Py_ssize_t need) except -1

@cython.final
cdef class Collector:
    cdef Walk walk
    cdef ColumnBuffer subjects, replies, headers, payloads
    cdef bytearray numbers, times
    cdef unsigned char *number_at
    cdef unsigned char *time_at
    cdef Py_ssize_t rows_room, row_size, size
    cdef int absent
    cdef readonly Py_ssize_t rows_max, bytes_max, rows, at
    cdef readonly unsigned long long first, next, last, found
    cdef object wanted
    cdef bint filtered, subject_taken
    cdef dict known
    cdef Py_ssize_t known_size
    cdef bytes subject

    cpdef int start_range(self, unsigned long long first, unsigned long long last,
                    object wanted, int absent=*) except -1
    @cython.locals(flag=int)
    cdef int _choose(self, int absent) except -1
    @cython.locals(walk=Walk, state=int, size=Py_ssize_t)
    cpdef int collect(self, object buffer, Py_ssize_t at, Py_ssize_t stop) except -1
    cpdef skip(self, unsigned long long number)
    @cython.locals(absent=int, flag=int, strings=ColumnBuffer, rows=Py_ssize_t)
    cpdef bytes chunk(self)
    cpdef clear(self)
    @cython.locals(walk=Walk, absent=int, row=Py_ssize_t, source='const unsigned char *')
    cdef int _append(self, object buffer) except -1
    @cython.locals(walk=Walk, absent=int)
    cdef int _put_wanted(self, Py_ssize_t row, const unsigned char *source) except -1
    @cython.locals(walk=Walk, absent=int, size=Py_ssize_t)
    cdef Py_ssize_t _size_of_wanted(self) except -1
    @cython.locals(absent=int)
    cdef int _make_rows(self, Py_ssize_t rows) except -1
    @cython.locals(walk=Walk, subject_at='const unsigned char *', subject=bytes,
                   before='const unsigned char *', size=Py_ssize_t)
    cdef bint _is_wanted(self, object buffer) except -1
