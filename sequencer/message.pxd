# The compiler's view of message.py: types only, never behaviour.
cimport cython

# Not final: `Walk` is a subclass. It has no methods, so it costs no vtable.
cdef class Message:
    cdef readonly object buffer
    cdef const unsigned char *data
    cdef const unsigned char *subject_data
    cdef readonly Py_ssize_t subject, subject_size, reply, reply_size
    cdef readonly Py_ssize_t body, size, header_size, payload, payload_size
    cdef readonly Py_ssize_t digits, digits_end, header_digits, header_digits_end
    cdef readonly bint mentions_nats
    cdef readonly unsigned long long number, time, origin, origin_sequence
    cdef readonly int flags
