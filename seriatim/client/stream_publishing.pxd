# The compiler's view of stream_publishing.py: types only, never behaviour.
cimport cython
from seriatim.client.stream_message cimport Message

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object made)

cdef extern from "stream_publishing.h":
    int decimal_width(unsigned long long value) noexcept
    bytes message_bytes(const char *prefix, Py_ssize_t prefix_size, const char *nonce,
                        Py_ssize_t nonce_size, unsigned long long token, Py_ssize_t head,
                        const char *payload, Py_ssize_t size)
    long long token_of(str subject, Py_ssize_t cut) noexcept
    long long number_of(object payload) noexcept

cdef tuple outgoing(object message)

@cython.final
cdef class MessageGroup:
    cdef public object future
    cdef public list numbers
    cdef public dict errors
    cdef Py_ssize_t _open

    cdef Py_ssize_t add(self) except -1
    cdef int settle(self, Py_ssize_t place, object number) except -1
    cdef int fail(self, Py_ssize_t place, object error) except -1
    cdef int end(self) except -1

@cython.final
cdef class OpenMessage:
    cdef public str subject, id
    cdef public bytes data
    cdef public object future
    cdef public MessageGroup group
    cdef public Py_ssize_t place
    cdef public double deadline, sent_at
    cdef public bint is_again
    cdef public unsigned long long floor

@cython.final
cdef class Publishing:
    cdef str _inbox, _nonce, _journal
    cdef bytes _nonce_bytes
    cdef Py_ssize_t _token_at, _bytes, _max_payload, _open_max, _bytes_max, _gathered
    cdef object _ask_info, _find_ids, _loop, _wire, _room, _emptied, _create_future, _put
    cdef object _sweeper, _learning, _closed, _tasks
    cdef dict _open, _prefixes, _not_yet
    cdef set _again
    cdef unsigned long long _token, _floor
    cdef bint _hears, _sends, _writes

    @cython.locals(token='unsigned long long', now=double, entry=OpenMessage, size=Py_ssize_t,
                   data=bytes, given=object)
    cdef int _begin(self, str subject, object payload, object headers, str id, object expect,
                    double timeout, object future, MessageGroup group) except -1
    cdef int _watch(self) except -1
    @cython.locals(prefix=bytes, nonce=bytes, plain=bytes, size=Py_ssize_t, head=Py_ssize_t)
    cdef bytes _plain(self, str subject, object payload, unsigned long long token)
    cdef bytes _prefix(self, str subject)
    cdef bytes _headed(self, str subject, object payload, object headers, str id, object expect,
                       object token)
    cdef int _listen(self, object wire) except -1
    @cython.locals(most=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _transmit(self, long long token, OpenMessage entry, object wire) except -1
    cdef int _let_in(self) except -1
    @cython.locals(message=Message, entry=OpenMessage, token='long long', number='long long',
                   sid='long long')
    cpdef list answered(self, list messages)
    cdef int _settle(self, long long token, OpenMessage entry, unsigned long long number) except -1
    cdef int _fail(self, long long token, OpenMessage entry, object error) except -1
    cdef int _forget(self, long long token, OpenMessage entry) except -1
    cdef int _refused(self, long long token, OpenMessage entry, Message answer) except -1
    cdef int _start(self, object work) except -1
    @cython.locals(entry=OpenMessage)
    cdef int _give_up(self, str why, double age=*) except -1
    cdef str _id(self, long long token, OpenMessage entry)
