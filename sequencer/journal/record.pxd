# The compiler's view of record.py: types only, never behaviour.
cimport cython
from sequencer.message cimport Message

cdef extern from "crc32c.h":
    unsigned int crc32c_extend(unsigned int crc, const unsigned char *data, size_t size) noexcept
    void crc32c_seal(unsigned char *data, size_t size, unsigned int salt) noexcept
    void crc32c_choose(int tables) noexcept

cdef extern from "copy.h":
    void copy_span(unsigned char *to, const unsigned char *source, size_t size) noexcept

cdef extern from "stream_copy.h":
    void stream_copy(unsigned char *to, const unsigned char *source, size_t size) noexcept

# As it is in the buffer. The format and the processors that we build for are little-endian.
cdef packed struct Head:
    unsigned int crc
    unsigned int length
    unsigned long long number
    unsigned long long time
    unsigned long long origin
    unsigned long long origin_sequence
    unsigned int epoch
    unsigned short flags
    unsigned short subject_size
    unsigned short reply_size
    unsigned short zero
    unsigned int header_size

cdef enum:
    MORE, RECORD, BAD

cdef enum:
    HEADER_SIZE = 56
    LENGTH_MAX = 134217728
    ID_FLAG = 1
    SCOPE_FLAG = 2
    BUFFER_MIN = 32768
    BUFFER_MAX = 1048576

@cython.final
cdef class RecordBatch:
    cdef readonly unsigned int salt, epoch
    cdef readonly bint checked
    cdef object buffer
    cdef bytearray own
    cdef unsigned char *data
    cdef object journal
    cdef unsigned char *into
    cdef Py_ssize_t at, moved
    cdef bint in_journal
    cdef readonly Py_ssize_t size, begin, end
    cdef Py_ssize_t sealed
    cdef readonly bint has_target
    cdef readonly unsigned long long first, last, time
    cdef readonly bint ids
    cdef readonly list marks
    cdef unsigned long long moved_last

    @cython.locals(head='Head *', to='unsigned char *', length=Py_ssize_t, padded=Py_ssize_t,
                   subject_size=Py_ssize_t, reply_size=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t put(self, Message message, Py_ssize_t most) except -1
    cpdef int set_target(self, object buffer, Py_ssize_t at=*) except -1
    cpdef Py_ssize_t waiting(self) noexcept
    cpdef Py_ssize_t seal(self) except -1
    @cython.locals(size=Py_ssize_t)
    cdef int _move(self) except -1
    cdef int _compose_in_own(self) except -1
    cdef int _make_room(self, Py_ssize_t need) except -1
    cdef int _grow(self, Py_ssize_t need) except -1
    cdef int _adopt(self, bytearray buffer) except -1
    @cython.locals(message=Message, parts=bytes)
    cpdef int append_message(self, unsigned long long number, unsigned long long time,
                             bytes subject, bytes reply, bytes headers, bytes payload,
                             unsigned long long origin=*, unsigned long long origin_sequence=*,
                             int flags=*) except -1
    cpdef clear(self)

@cython.final
cdef class Walk(Message):
    cdef readonly unsigned int salt, epoch
    cdef readonly bint checked
    cdef Py_ssize_t stop
    cdef readonly Py_ssize_t at, after

    cpdef int attach(self, object buffer, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef _attach_view(self, object view)
    cpdef int next(self) except -1
    cpdef int skim(self) except -1
    @cython.locals(state=int)
    cpdef int find(self, unsigned long long number) except -1
    @cython.locals(last=Py_ssize_t, before='unsigned long long', follows=bint)
    cpdef int seek(self, unsigned long long number) except -1
    @cython.locals(begin=Py_ssize_t, end=Py_ssize_t, last='unsigned long long',
                   epoch='unsigned int')
    cpdef unsigned long long stretch(self, Py_ssize_t most) except? 0
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, number='unsigned long long',
                   time='unsigned long long', epoch='unsigned int', flags=int)
    cpdef int advance(self, unsigned long long limit, Py_ssize_t stop) except -1
    @cython.locals(head='const Head *', length=Py_ssize_t, left=Py_ssize_t, padded=Py_ssize_t,
                   crc='unsigned int')
    cdef int _read(self, bint check) except -1

cpdef Py_ssize_t record_size(Py_ssize_t subject_size, Py_ssize_t reply_size, Py_ssize_t size) noexcept
