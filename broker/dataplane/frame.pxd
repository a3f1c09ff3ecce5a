# The compiler's view of frame.py: types only, never behaviour.
cimport cython
from broker.dataplane.time_text cimport TIME_SIZE, TimeText
from sequencer.digits cimport frame_size, inner_size, width_of, write_decimal
from sequencer.message cimport Message
from sublist.route cimport Route

cdef extern from "copy.h":
    void copy_span(unsigned char *to, const unsigned char *source, size_t size) noexcept

cdef enum:
    FRAMED, BARE, FRAMED_HEADERS, BARE_HEADERS, NUMBERED_HEADERS, STAMPED_HEADERS

cdef enum:
    STATUS_SIZE = 10
    NUMBER_SIZE = 15
    STAMP_SIZE = 19

cdef enum:
    MARGIN_MIN = 512
    ROOM_MIN = 512

@cython.final
cdef class Frame:
    cdef readonly int shape
    cdef bytearray buffer
    cdef unsigned char *data
    cdef Py_ssize_t room, margin
    cdef readonly Py_ssize_t start, end
    cdef readonly unsigned long long number
    cdef Py_ssize_t size, width, digits, digits_end, header_size, headers_at, time_at
    cdef TimeText time
    cdef bytes tail_bytes, verb
    cdef const unsigned char *tail
    cdef readonly Py_ssize_t tail_size
    cdef Route line_route
    cdef bytes sid

    @cython.locals(size=Py_ssize_t, digits=Py_ssize_t, width=Py_ssize_t)
    cdef int write_head(self, Message message) except -1
    @cython.locals(number='unsigned long long', header_size=Py_ssize_t)
    cdef int _write_headers_head(self, Message message) except -1
    cdef int _bare_headers(self, Message message) except -1
    @cython.locals(number='unsigned long long', size=Py_ssize_t, header_size=Py_ssize_t, same=bint,
                   end=Py_ssize_t)
    cdef int _frame_headers(self, Message message) except -1
    @cython.locals(digits=Py_ssize_t)
    cdef int _sizes(self, Message message) except -1
    cdef void expire(self) noexcept
    @cython.locals(at=Py_ssize_t, first=Py_ssize_t, digits='unsigned char *')
    cdef bint _count_up(self) noexcept
    @cython.locals(inner=Py_ssize_t)
    cdef int _lay_out(self, unsigned long long number, Py_ssize_t size,
                      unsigned long long time) except -1
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t _fields_size(self, unsigned long long number) except -1
    cdef int _fields(self, unsigned long long number, unsigned long long time) except -1
    @cython.locals(end=Py_ssize_t)
    cdef int _change_time(self, unsigned long long time) except -1
    cdef int _frame_head(self, unsigned long long number, Py_ssize_t size) except -1
    @cython.locals(number='unsigned long long', size=Py_ssize_t, header_size=Py_ssize_t,
                   line=Py_ssize_t, extra=Py_ssize_t)
    cdef int _number_header(self, Message message) except -1
    @cython.locals(number='unsigned long long', header_size=Py_ssize_t, own=bytes, fields=bytes,
                   block=bytes, at=Py_ssize_t)
    cdef int _rewrite_headers(self, Message message) except -1
    @cython.locals(subject_size=Py_ssize_t, reply_size=Py_ssize_t, need=Py_ssize_t,
                   end=Py_ssize_t)
    cdef int write_line(self, Message message, bytes sid, Route route) except -1
    cdef bint has_line_of(self, Route route, bytes sid) noexcept
    @cython.locals(buffer=bytearray, moved=Py_ssize_t)
    cdef int _widen(self, Py_ssize_t margin, Py_ssize_t room) except -1
    cdef void _copy(self, const unsigned char *source, Py_ssize_t start, Py_ssize_t count) noexcept
    cdef void _literal(self, bytes text) noexcept
    cdef void _decimal(self, unsigned long long value) noexcept

@cython.locals(first='const unsigned char *', line=Py_ssize_t, at='const unsigned char *',
               end='const unsigned char *', letter='unsigned char')
cdef bint is_simple(const unsigned char *data, Py_ssize_t body, Py_ssize_t size)
