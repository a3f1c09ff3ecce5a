# The compiler's view of matches.py: types only, never behaviour.
cimport cython
from broker.dataplane.connection cimport Connection
from sublist.subject cimport has_wildcard
from sublist.subscription cimport Subscription

cdef enum:
    LAST_COUNTER = 65535

@cython.final
cdef class Shape:
    cdef readonly dict counters
    cdef readonly list heights

    @cython.locals(value=Py_ssize_t)
    cdef bint rises(self, bytes pattern) except -1
    @cython.locals(place=Py_ssize_t, value=Py_ssize_t, heights=list)
    cdef bint add(self, bytes pattern) except -1
    @cython.locals(place=Py_ssize_t, value=Py_ssize_t, heights=list)
    cdef bint remove(self, bytes pattern) except -1

@cython.final
cdef class Counts:
    cdef readonly dict shapes
    cdef readonly Py_ssize_t bound
    cdef bint reported

    @cython.locals(shape=Shape)
    cdef bint admits(self, bytes pattern, Py_ssize_t most) except -1
    @cython.locals(key=bytes, shape=Shape)
    cpdef add(self, bytes pattern)
    @cython.locals(key=bytes, shape=Shape)
    cpdef remove(self, bytes pattern)
    cdef report(self, Connection connection, bytes pattern, limit)

@cython.final
cdef class Matches:
    cdef readonly dict counts
    cdef readonly Py_ssize_t most, start, low

    cpdef limit(self, Py_ssize_t most)
    cpdef Py_ssize_t watch(self, Connection connection) except -1
    @cython.locals(counts=Counts)
    cpdef bint acquire(self, Connection connection, bytes pattern) except -1
    @cython.locals(counts=Counts, connection=Connection)
    cpdef remove(self, Subscription sub)

@cython.final
cdef class MatchOwner:
    cdef readonly object key
    cdef dict connections
    cdef readonly Py_ssize_t live
    cdef readonly Counts counts

@cython.final
cdef class UserMatches:
    cdef readonly Py_ssize_t most, start, low, refused
    cdef readonly dict _owners
    cdef dict _of

    @cython.locals(owner=MatchOwner)
    cpdef limit(self, Py_ssize_t most)
    @cython.locals(owner=MatchOwner, connection=Connection, one=Connection, sub=Subscription)
    cpdef Py_ssize_t watch(self, Connection connection) except -1
    @cython.locals(owner=MatchOwner, counts=Counts, free=Py_ssize_t)
    cpdef bint acquire(self, Connection connection, bytes pattern) except -1
    @cython.locals(owner=MatchOwner, left=Py_ssize_t)
    cpdef remove(self, Connection connection, bytes pattern)

cdef Py_ssize_t start_of(Py_ssize_t most) noexcept
cpdef bytes shape_of(bytes pattern)
