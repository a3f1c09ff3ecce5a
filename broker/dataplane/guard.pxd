# The compiler's view of guard.py: types only, never behaviour.
cimport cython
from sublist.pattern_set cimport PatternSet
from sublist.route cimport Route
from sublist.subject cimport covers, has_wildcard

cdef enum:
    SLOTS = 4096
    REQUESTS_MAX = 4096
    REQUESTS_TEXT = 524288

@cython.final
cdef class SubjectRights:
    cdef readonly PatternSet allow, deny
    cdef list allowed_queues, denied_queues
    cdef dict denied_sets
    cdef readonly Py_ssize_t size

    cpdef bint allows(self, bytes subject) except -1
    cpdef bint admit(self, bytes pattern, bytes queue) except -1
    cdef PatternSet denied_for(self, bytes queue)

@cython.final
cdef class Guard:
    cdef readonly SubjectRights publish, subscribe
    cdef readonly long long responses, response_ns
    cdef readonly unsigned long long serial
    cdef bytearray kept
    cdef unsigned long long *seen

    cpdef bint may_publish(self, Route route) except -1
    cdef bint _judge(self, Route route) except -1
    cpdef bint may_publish_to(self, bytes subject) except -1
    cpdef bint may_subscribe(self, bytes pattern, bytes queue=*) except -1
    cpdef bint may_receive_all(self) except -1
    cpdef bint may_receive(self, bytes subject) except -1
    cpdef PatternSet denied_to(self, bytes pattern, bytes queue=*)

@cython.final
cdef class OpenRequests:
    cdef readonly long long most, expires_ns
    cdef readonly dict noted
    cdef readonly Py_ssize_t text

    @cython.locals(request=list)
    cpdef note(self, bytes reply, long long now)
    @cython.locals(request=list)
    cpdef bint allow(self, bytes reply, long long now) except -1
    cdef int _forget(self, bytes reply) except -1
