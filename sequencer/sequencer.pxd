# The compiler's view of sequencer.py: types only, never behaviour.
cimport cython
from sequencer.journal.record cimport RecordBatch, record_size
from sequencer.message cimport Message

cdef enum:
    BATCH_MAX = 262144
    WINDOW_MAX = 1048576

@cython.final
cdef class Sequencer:
    cdef readonly unsigned long long number, written, safe, now, steady
    cdef unsigned long long floor, ticked
    cdef RecordBatch batch
    cdef public Py_ssize_t batch_max
    cdef Py_ssize_t most
    cdef readonly object journal, window
    cdef readonly Py_ssize_t room
    cdef Py_ssize_t wanted
    cdef bint synced_only
    cdef readonly bint full, stuck
    cdef object trouble
    cdef readonly list feeds

    cpdef skip_to(self, unsigned long long number)
    cpdef tick(self, unsigned long long now, unsigned long long steady=*)
    @cython.locals(batch=RecordBatch, size=Py_ssize_t)
    cpdef unsigned long long assign_number(self, Message message) except? 0
    cpdef pass_on(self, Message message)
    @cython.locals(batch=RecordBatch)
    cpdef bint release(self) except -1
    cpdef bytes abandon(self)
    cpdef Py_ssize_t waiting_bytes(self) except -1
    cpdef synced(self, unsigned long long number)
    @cython.locals(batch=RecordBatch)
    cpdef ask_again(self)
    cpdef hold_back(self)
    @cython.locals(batch=RecordBatch)
    cdef bint _reserve(self, Py_ssize_t need) except -1
    @cython.locals(waiting=Py_ssize_t, room=Py_ssize_t)
    cdef int _take_room(self, RecordBatch batch, Py_ssize_t need) except -1
    cdef int _write(self, RecordBatch batch) except -1
    cdef _append(self, RecordBatch batch)
    @cython.locals(batch=RecordBatch)
    cpdef resume(self)
    cdef _tell(self, error)
