# The compiler's view of subscription.py: types only, never behaviour.
cimport cython

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object) noexcept

@cython.final
cdef class Subscription:
    cdef readonly bytes subject, sid, queue
    cdef public object owner
    cdef public unsigned long long delivered, limit, last_seen
    cdef public bint unframed
    cdef public object deferred_numbers, denied, replay
    cdef Subscription following, preceding
