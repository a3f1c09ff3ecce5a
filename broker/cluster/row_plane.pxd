# The compiler's view of row_plane.py: types only, never behaviour.
cimport cython
from broker.dataplane.plane cimport Plane
from sequencer.message cimport Message
from sequencer.sequencer cimport Sequencer
from sublist.route cimport Route

# Not final: Cython takes the methods that it overrides for final ones then.
cdef class RowPlane(Plane):
    cdef readonly Sequencer numbers

    cdef unsigned long long submit(self, Message message, Route route) except? 0
