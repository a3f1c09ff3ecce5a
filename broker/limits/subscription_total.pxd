# The compiler's view of subscription_total.py: types only, never behaviour.
cimport cython
from sublist.subject cimport has_wildcard
from sublist.subscription cimport Subscription

cdef enum:
    TEXT = 256

@cython.final
cdef class SubscriptionTotal:
    cdef readonly Py_ssize_t used, refused

    @cython.locals(weight=Py_ssize_t)
    cpdef bint acquire(self, Subscription sub, Py_ssize_t most) except -1
    cpdef release(self, Subscription sub)

@cython.locals(subject=bytes, text=Py_ssize_t, nodes=Py_ssize_t)
cpdef Py_ssize_t weight_of(Subscription sub) except -1
