# The compiler's view of cluster_plane.py: types only, never behaviour.
cimport cython
from broker.cluster.direct_block cimport DirectBlock, DirectWalk, packed_group
from broker.cluster.group_shares cimport GroupShares
from broker.dataplane.connection cimport Connection
from broker.dataplane.plane cimport Plane
from broker.dataplane.reply_publisher cimport under
from sequencer.journal.record cimport RECORD, Walk
from sequencer.message cimport Message
from sequencer.replica.forward_table cimport ForwardTable
from sequencer.replica.numbering cimport Numbering
from sublist.route cimport Fanout, Route
from sublist.subscription cimport Subscription

cdef enum:
    ID_FLAG = 1
    SCOPED_ID = 3
    CONTROL_WORK = 64
    WORK_MAX = 131072
    ANSWER_BYTES = 128
    TURN_BYTES = 1048576
    OVERFULL = 4
    LINE_MAX = 64
    COPY_MAX = 1024
    COPY_SHIFT = 7
    MASK32 = 0xFFFFFFFF
    LATE_MIN = 1024

cdef enum:
    ORDINARY, EXCLUDED

# Not final: Cython takes the methods that it overrides for final ones then.
cdef class ClusterPlane(Plane):
    cdef readonly Numbering numbering
    cdef readonly unsigned long long run
    cdef Py_ssize_t bytes_max
    cdef Walk walk
    cdef Message asked
    cdef object waiting
    cdef readonly Py_ssize_t answer_bytes
    cdef readonly dict actions, paused
    cdef set crowding
    cdef Connection acting
    cdef bint is_behind_own
    cdef unsigned long long forgotten
    cdef dict mutes
    cdef readonly list held
    cdef public bint flushing, is_full
    cdef public Py_ssize_t turn_bytes
    cdef object flush_soon
    cdef GroupShares shares
    cdef public object published, await_begin
    cdef readonly list late
    cdef Py_ssize_t late_max
    cdef readonly unsigned long long late_until
    cdef readonly DirectBlock passing
    cdef DirectWalk passed
    cdef str member
    cdef public set hearing
    cdef object ask_others
    cdef public list heard
    cdef public bint is_passing_slowed
    cdef readonly list slowed

    @cython.locals(key='unsigned long long', reached=Py_ssize_t, chosen=list, own=list, known=set,
                   sub=Subscription, fanout=Fanout)
    cdef int _publish_direct(self, Connection connection, Message message, Route route,
                             bytes reply) except -1
    @cython.locals(total='unsigned long long', left='unsigned long long',
                   weight='unsigned long long')
    cdef str _draw(self, tuple weights)
    @cython.locals(reached=Py_ssize_t, copy=Py_ssize_t, fanout=Fanout, sub=Subscription)
    cdef Py_ssize_t _offer_direct(self, Message message, Route route, list own) except -1
    @cython.locals(walk=DirectWalk, route=Route, reached=Py_ssize_t)
    cpdef Py_ssize_t deliver_direct(self, bytes data, Py_ssize_t at) except -1
    @cython.locals(item=Connection)
    cpdef resume_slowed(self)
    cdef int _flush_later(self) except -1
    @cython.locals(place='unsigned long long')
    cdef unsigned long long submit(self, Message message, Route route) except? 0
    cdef unsigned long long submit_from_port(self, Message message, Route route) except? 0
    @cython.locals(place='unsigned long long')
    cdef int _publish_ordinary(self, Connection connection, Message message, Route route,
                               bytes reply) except -1
    @cython.locals(place='unsigned long long', reply=bytes)
    cdef int _acknowledge(self, Connection connection, Message message, Route route,
                          Py_ssize_t reply_size) except -1
    @cython.locals(place='unsigned long long')
    cpdef bint acknowledge(self, Connection connection, Message message, Route route,
                           bytes reply) except -1
    cpdef bint waits(self, Connection connection) except -1
    @cython.locals(settled=bint)
    cpdef in_order(self, Connection connection, action, Py_ssize_t copied=*)
    @cython.locals(own=bytearray, copy=Message)
    cpdef Message kept(self, Message message)
    cpdef pause(self, Connection connection)
    @cython.locals(kind=int, number='unsigned long long')
    cpdef resume(self, Connection connection)
    cpdef drop_answers(self, Connection connection)
    cdef int _mark_id(self, Connection connection, Message message) except -1
    @cython.locals(connection=Connection)
    cdef int _placed(self, unsigned long long place, Py_ssize_t size) except -1
    cdef bint _is_full(self) except -1
    cdef int _await(self, unsigned long long place, int kind, Connection connection, object what) except -1
    @cython.locals(item=Connection)
    cpdef resume_publishers(self)
    @cython.locals(walk=Walk, table=ForwardTable, route=Route,
                   number='unsigned long long', is_own=bint)
    cpdef bint deliver(self, bytes buffer, unsigned long long until) except -1
    cdef Py_ssize_t _fan_out(self, Message message, Route route) except -1
    @cython.locals(reached=Py_ssize_t, number='unsigned long long', fanout=Fanout,
                   sub=Subscription)
    cdef Py_ssize_t _fan_out_to_earlier(self, Message message, Route route) except -1
    @cython.locals(number='unsigned long long')
    cpdef begin_live(self, Subscription sub)
    @cython.locals(sub=Subscription)
    cpdef begin_waiting(self, unsigned long long number)
    @cython.locals(sub=Subscription)
    cpdef cut(self, unsigned long long number)
    @cython.locals(sub=Subscription, number='unsigned long long')
    cdef int _review_late(self) except -1
    @cython.locals(sub=Subscription)
    cdef bint _offer_group(self, Message message, Route route, tuple members) except -1
    @cython.locals(settled='unsigned long long')
    cpdef settle(self)
    @cython.locals(item=Connection)
    cdef int _forget_mutes(self, unsigned long long settled) except -1
    @cython.locals(place='unsigned long long', kind=int, connection=Connection,
                   number='unsigned long long')
    cdef int _answer(self, unsigned long long settled, bint before) except -1
    @cython.locals(before=Connection)
    cdef int _give(self, Connection connection, int kind, object what,
                   unsigned long long number) except -1
    cdef int _acted(self, Connection connection) except -1
    @cython.locals(asked=Message)
    cdef int _say_number(self, Connection connection, bytes reply, unsigned long long number) except -1
