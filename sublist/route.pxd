# The compiler's view of route.py: types only, never behaviour.
cimport cython

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object) noexcept

cdef enum:
    HEAD_SIZE = 16

cdef class Kinds:
    cpdef int kind_of(self, bytes subject) except -1

@cython.final
cdef class Fanout:
    cdef readonly tuple plain, groups

# The fields that every message looks at come first, and with the object's own 16 bytes they
# fill one cache line: with a hundred thousand subjects that line is what a message waits for.
@cython.final
cdef class Route:
    cdef public long long generation
    cdef readonly unsigned int digest
    cdef readonly unsigned short size, kind
    cdef public Fanout fanout
    cdef Route following
    cdef unsigned char head[HEAD_SIZE]
    cdef readonly bytes subject
    cdef const unsigned char *text
    cdef readonly unsigned long long serial
    cdef public unsigned long long allowed

@cython.locals(route=Route)
cdef Route new_route(bytes subject, unsigned int digest, int kind, Fanout fanout,
                     long long generation, unsigned long long serial)
