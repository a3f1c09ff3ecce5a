# The compiler's view of forward_copies.py: types only, never behaviour.
cimport cython
from sequencer.journal.record cimport Head, RecordBatch, Walk, record_size
from sequencer.message cimport Message

cdef enum:
    BLOCK_MAX = 262144
    SPARE_MAX = 16

cdef enum:
    OFFSET = 0xFFFFFFFF

@cython.final
cdef class ForwardCopies:
    cdef readonly Py_ssize_t held
    cdef RecordBatch block
    cdef unsigned long long newest, oldest
    cdef list blocks, spare

    @cython.locals(size=Py_ssize_t, at=Py_ssize_t, block=RecordBatch, head='Head *')
    cdef unsigned long long add(self, Message message) except? 0xFFFFFFFFFFFFFFFF
    @cython.locals(block=RecordBatch)
    cdef Py_ssize_t size_at(self, unsigned long long at) except -1
    @cython.locals(block=RecordBatch, start=Py_ssize_t, data='const char *')
    cdef bytes cut_out(self, unsigned long long at, Py_ssize_t size)
    @cython.locals(block=RecordBatch)
    cdef int seek(self, Walk walk, unsigned long long at) except -1
    @cython.locals(size=Py_ssize_t, block=RecordBatch)
    cdef int free(self, unsigned long long at) except -1
    cdef RecordBatch _block_of(self, unsigned long long at)
    @cython.locals(block=RecordBatch)
    cdef RecordBatch _begin_block(self)
