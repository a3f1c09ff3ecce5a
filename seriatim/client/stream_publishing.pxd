# The compiler's view of stream_publishing.py: types only, never behaviour.
cimport cython
from seriatim.client.stream_message cimport Message

cdef extern from "stream_publishing.h":
    int decimal_width(unsigned long long value) noexcept
    bytes message_bytes(const char *prefix, Py_ssize_t prefix_size, const char *nonce,
                        Py_ssize_t nonce_size, unsigned long long token, Py_ssize_t head,
                        const char *payload, Py_ssize_t size)
    long long token_of(str subject, Py_ssize_t cut) noexcept
    long long number_of(object payload) noexcept

@cython.freelist(1024)
@cython.final
cdef class OpenMessage:
    cdef public str subject, id
    cdef public bytes data
    cdef public object future
    cdef public double deadline, sent_at
    cdef public bint is_again
    cdef public unsigned long long floor

@cython.final
cdef class Publishing:
    cdef str _inbox, _nonce, _journal
    cdef bytes _nonce_bytes
    cdef Py_ssize_t _token_at, _bytes, _max_payload
    cdef object _ask_info, _find_ids, _loop, _wire, _room, _emptied, _create_future, _time
    cdef object _sweeper, _learning, _closed, _doubts
    cdef dict _open, _prefixes, _not_yet
    cdef set _again
    cdef unsigned long long _token, _floor
    cdef bint _hears

    @cython.locals(prefix=bytes, nonce=bytes, plain=bytes, size=Py_ssize_t, head=Py_ssize_t)
    cdef bytes _plain(self, str subject, object payload, unsigned long long token)
    cdef bytes _prefix(self, str subject)
    cdef bytes _headed(self, str subject, object payload, object headers, str id, object expect,
                       object token)
    cdef int _listen(self, object wire) except -1
    @cython.locals(most=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _transmit(self, long long token, OpenMessage entry, object wire) except -1
    cdef int _let_in(self) except -1
    @cython.locals(message=Message, entry=OpenMessage, token='long long', number='long long')
    cpdef int answered(self, list messages) except -1
    cdef int _settle(self, long long token, OpenMessage entry, unsigned long long number) except -1
    cdef int _fail(self, long long token, OpenMessage entry, object error) except -1
    cdef int _forget(self, long long token, OpenMessage entry) except -1
    cdef int _refused(self, long long token, OpenMessage entry, Message answer) except -1
    @cython.locals(entry=OpenMessage)
    cdef int _give_up(self, str why, double age=*) except -1
    cdef str _id(self, long long token, OpenMessage entry)
