# The compiler's view of feed_message.py: types only, never behaviour.
cimport cython

@cython.final
cdef class FeedMessage:
    cdef readonly unsigned long long number, time
    cdef readonly bytes payload, subject, headers
