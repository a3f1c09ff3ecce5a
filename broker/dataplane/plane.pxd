# The compiler's view of plane.py: types only, never behaviour.
cimport cython
from broker.dataplane.connection cimport Connection
from broker.dataplane.gate cimport Gate
from broker.dataplane.guard cimport Guard, OpenRequests
from broker.dataplane.ledger cimport Ledger
from broker.dataplane.outbox_writer cimport OutboxWriter
from broker.dataplane.reply_publisher cimport ReplyPublisher, is_plain_reply, under
from broker.dataplane.stream_table cimport AckTaker, StreamTable
from parser.machine cimport HPUB, IGNORED, MORE, PUB, START, UNSUB, Parser
from sequencer.message cimport Message
from sequencer.sequencer cimport Sequencer
from sublist.route cimport Fanout, Route
from sublist.subject cimport is_literal
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription

cdef enum:
    ID_FLAG = 1
    SCOPED_ID = 3
    IN_STREAM = 4
    DEFERRED_NUMBERS_MAX = 262144
    PREFIX_SIZE = 9

cdef enum:
    ORDINARY, EXCLUDED, UNMATCHABLE, CONTROL, RESERVED, ACKNOWLEDGED

cdef enum:
    COPY_SHIFT = 7
    DEFERRED_SHIFT = 3
    MASK32 = 0xFFFFFFFF
    CONTROL_WORK = 64
    CASE_BIT = 0x20
    WORK_MAX = 131072
    SHARE_MIN = 8192
    ROUTES_NEAR = 8192

# Not final: in a cluster, `ClusterPlane` overrides some of its methods.
cdef class Plane:
    cdef readonly Sublist sublist
    cdef readonly Sequencer sequencer
    cdef readonly object control
    cdef readonly Gate gate
    cdef OutboxWriter outbox_writer
    cdef readonly ReplyPublisher reply_publisher
    cdef object window
    cdef StreamTable streams
    cdef AckTaker acks
    cdef readonly Message message
    cdef Connection excluded
    cdef readonly Py_ssize_t work
    cdef Py_ssize_t share
    cdef Py_ssize_t deferred
    cdef readonly bint interrupted
    cdef bint refused
    cdef unsigned int random
    cdef public unsigned long long entered
    cdef public bytes unavailable

    @cython.locals(rest=Py_ssize_t)
    cpdef Py_ssize_t receive(self, Connection connection, bytearray buffer, Py_ssize_t stop) except -1
    @cython.locals(parser=Parser, message=Message, op=int, size=Py_ssize_t, limit=Py_ssize_t)
    cpdef Py_ssize_t serve(self, Connection connection, bytearray buffer, Py_ssize_t stop) except -1
    cdef bint _is_admitted(self, Connection connection, bytearray buffer, Py_ssize_t stop) except -1
    cpdef begin_turn(self)
    cpdef share_among(self, int clients)
    cdef bint is_spent(self, Py_ssize_t most=*) noexcept
    cpdef charge_work(self, Py_ssize_t work)
    cpdef open_streams(self, StreamTable table, AckTaker acks)
    @cython.locals(number='unsigned long long', fanout=Fanout)
    cdef unsigned long long submit(self, Message message, Route route) except? 0
    cdef unsigned long long submit_from_port(self, Message message, Route route) except? 0
    @cython.locals(message=Message, route=Route, usual=bint)
    cdef int _publish(self, Connection connection, Parser parser, Py_ssize_t header_size) except -1
    @cython.locals(usual=bint, plain=bint, guarded=bint, reply=bytes, ledger=Ledger)
    cdef int _publish_uncommon(self, Connection connection, Message message, Route route) except -1
    @cython.locals(parser=Parser, guarded=bint)
    cdef bint _refuse_guarded(self, Connection connection, Message message, bytes subject,
                              Ledger ledger, bint acknowledged) except -1
    @cython.locals(fresh=bint, reply=bytes)
    cdef int _publish_in_stream(self, Connection connection, Message message, Route route,
                                Ledger ledger) except -1
    @cython.locals(reply_size=Py_ssize_t, route=Route, ledger=Ledger)
    cdef int _publish_acknowledged(self, Connection connection, Message message,
                                   Route route) except -1
    @cython.locals(fresh=bint)
    cdef int _publish_ordinary(self, Connection connection, Message message, Route route,
                               bytes reply) except -1
    @cython.locals(fresh=bint)
    cdef int _acknowledge(self, Connection connection, Message message, Route route,
                          Py_ssize_t reply_size) except -1
    @cython.locals(fresh=bint)
    cpdef bint acknowledge(self, Connection connection, Message message, Route route,
                           bytes reply) except -1
    cpdef bint waits(self, Connection connection) except -1
    cpdef begin_live(self, Subscription sub)
    cpdef in_order(self, Connection connection, action, Py_ssize_t copied=*)
    cpdef Message kept(self, Message message)
    cpdef pause(self, Connection connection)
    cpdef resume(self, Connection connection)
    cpdef drop_answers(self, Connection connection)
    @cython.locals(parser=Parser, only=bint)
    cdef bint _trace_only(self, Connection connection, Message message, Route route) except -1
    @cython.locals(key=bytes, scope=bytes, ours=bint, ledger=Ledger, flags=int)
    cdef bint _take_once(self, Connection connection, Message message, Route route) except -1
    @cython.locals(requests=OpenRequests)
    cdef bint _may_publish(self, Connection connection, Route route) except -1
    @cython.locals(start=Py_ssize_t)
    cdef int _note_request(self, Connection connection, Message message) except -1
    cdef int _forbid(self, Connection connection, Message message, bytes subject) except -1
    @cython.locals(report=bint)
    cdef int _refuse(self, Connection connection, Route route) except -1
    cdef int _confirm(self, Connection connection) except -1
    @cython.locals(reached=Py_ssize_t, copy=Py_ssize_t, fanout=Fanout)
    cdef Py_ssize_t _fan_out(self, Message message, Route route) except -1
    @cython.locals(count=Py_ssize_t, first=Py_ssize_t, turn=Py_ssize_t, at=Py_ssize_t, able=bint,
                   sub=Subscription, connection=Connection)
    cdef bint _offer_group(self, Message message, Route route, tuple members) except -1
    @cython.locals(connection=Connection)
    cdef bint _offer(self, Message message, Route route, Subscription sub) except -1
    cdef bint _defer_to_journal(self, Connection connection, Subscription sub, unsigned long long number) except -1
    cpdef bint send_control(self, Connection connection, bytes text) except -1
    cpdef bint send_control_now(self, Connection connection, bytes text) except -1
    cpdef answer(self, Connection asker, bytes reply, bytes payload, bytes headers)
    cpdef answer_now(self, Connection asker, bytes reply, bytes payload, bytes headers)
    cpdef send_status(self, Connection asker, bytes inbox, bytes headers)
    cpdef hand_to(self, Subscription sub, bytes subject, bytes reply, bytes payload, bytes headers)
    cpdef bint listens(self, Connection asker, bytes reply) except -1
    cpdef release(self, Connection last)

cdef int describe(Message message, Parser parser, Py_ssize_t header_size) noexcept
