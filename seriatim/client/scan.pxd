# The compiler's view of scan.py: types only, never behaviour.
cimport cython
from libc.string cimport memcmp
from seriatim.client.stream_message cimport Message, is_stamped

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object made)

cdef extern from "scan.h":
    struct message_line:
        Py_ssize_t subject, subject_end, reply, reply_end, head, size, body
        long long sid
    int message_line_read(const unsigned char *data, Py_ssize_t at, Py_ssize_t end,
                          message_line *line) noexcept
    long long message_number(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.final
cdef class Scanner:
    cdef public bint trusted
    cdef bint numbered_only
    cdef str subject
    cdef bytes subject_bytes

    cpdef Py_ssize_t scan(self, bytearray buffer, Py_ssize_t at, Py_ssize_t end,
                          list found) except -1
    @cython.locals(stop=Py_ssize_t, payload=Py_ssize_t, number='long long', made=Message, block=bytes,
                   line=message_line, data='const unsigned char *',
                   prefix='const unsigned char *', prefix_size=Py_ssize_t)
    cdef Py_ssize_t _scan_compiled(self, bytearray buffer, Py_ssize_t at, Py_ssize_t end,
                                   list found) except -1
    @cython.locals(known='const unsigned char *')
    cdef str _subject(self, const unsigned char *data, Py_ssize_t size)
    cdef Py_ssize_t _scan_plain(self, bytearray buffer, Py_ssize_t at, Py_ssize_t end,
                                list found) except -1
    cdef str _remember(self, bytes name)
    cdef Py_ssize_t _decimal(self, bytes digits) except -1
