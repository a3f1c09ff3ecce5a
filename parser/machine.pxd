# The compiler's view of machine.py: types only, never behaviour.
cimport cython

cdef extern from "string.h":
    void *memmem(const void *text, size_t size, const void *part, size_t part_size) noexcept

cdef extern from "scan.h":
    Py_ssize_t scan_word(const unsigned char *data, Py_ssize_t at, Py_ssize_t stop) noexcept
    Py_ssize_t scan_number(const unsigned char *data, Py_ssize_t at, Py_ssize_t stop) noexcept
    bint scan_pub(const unsigned char *data, Py_ssize_t at) noexcept
    bint scan_hpub(const unsigned char *data, Py_ssize_t at) noexcept
    bint scan_end(const unsigned char *data, Py_ssize_t at) noexcept

cdef enum:
    MORE, PUB, HPUB, SUB, UNSUB, PING, PONG, CONNECT, FAULT, IGNORED, INFO

cdef enum:
    START = 0
    CONNECT_ARGUMENT = 64
    PUB_ARGUMENT, HPUB_ARGUMENT, SUB_ARGUMENT, UNSUB_ARGUMENT, INFO_ARGUMENT, ERR_ARGUMENT
    PING_END, PONG_END, OK_END, BROKEN

cdef enum:
    FIRST_FINAL = 64
    COUNT_BITS = 4
    COUNT_MASK = 15
    SPACE = 32
    TAB = 9
    CR = 13
    LF = 10

@cython.final
cdef class Parser:
    cdef bytes transitions
    cdef bytearray buffer
    cdef const unsigned char *table
    cdef const unsigned char *data
    cdef readonly Py_ssize_t stop
    cdef readonly int state
    cdef readonly Py_ssize_t at, need
    cdef public bint headers
    cdef public Py_ssize_t max_control_line, max_payload
    cdef readonly Py_ssize_t peeked
    cdef Py_ssize_t peeked_end
    cdef readonly Py_ssize_t subject, subject_end, reply, reply_end
    cdef readonly Py_ssize_t digits, digits_end, header_digits, header_digits_end
    cdef readonly Py_ssize_t body, size, header_size
    cdef readonly object fault

    cpdef int attach(self, bytearray buffer, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(data='const unsigned char *', stop=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t,
                   begun=bint, subject_end=Py_ssize_t, digits=Py_ssize_t, size=Py_ssize_t,
                   number=Py_ssize_t, reply=Py_ssize_t, reply_end=Py_ssize_t)
    cpdef int next(self) except -1
    @cython.locals(data='const unsigned char *', stop=Py_ssize_t, subject_end=Py_ssize_t,
                   reply=Py_ssize_t, reply_end=Py_ssize_t, header_digits=Py_ssize_t,
                   header_end=Py_ssize_t, header_size=Py_ssize_t, number=Py_ssize_t,
                   digits=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t)
    cdef bint _headed(self, Py_ssize_t start) noexcept
    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t peek(self) noexcept
    @cython.locals(data='const unsigned char *', table='const unsigned char *', stop=Py_ssize_t,
                   at=Py_ssize_t, state=int)
    cdef int _walk(self) except -1
    @cython.locals(data='const unsigned char *', stop=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t)
    cdef int _line(self, int state, Py_ssize_t at) except -1
    cdef int _dispatch(self, int state, Py_ssize_t at, Py_ssize_t end, Py_ssize_t after) except -1
    @cython.locals(data='const unsigned char *', count=int, begin=Py_ssize_t)
    cdef int _words(self, Py_ssize_t at, Py_ssize_t end, bint any_blank) except -1
    cdef bint _blank(self, unsigned char byte, bint any_blank) noexcept
    @cython.locals(words=int)
    cdef int _publish(self, int state, Py_ssize_t at, Py_ssize_t end, Py_ssize_t after) except -1
    @cython.locals(data='const unsigned char *', stop=Py_ssize_t, end=Py_ssize_t)
    cdef int _payload(self, int state, Py_ssize_t at, Py_ssize_t body) except -1
    @cython.locals(text='const char *')
    cdef bint mentions(self, bytes name, Py_ssize_t size) except -1
    @cython.locals(number=Py_ssize_t, count=Py_ssize_t)
    cdef Py_ssize_t _number(self, Py_ssize_t at, Py_ssize_t end) noexcept
    cdef int _wait(self, int state, Py_ssize_t at, Py_ssize_t need) except -1
    cdef int _broken(self, object fault) except -1
