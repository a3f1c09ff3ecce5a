# The compiler's view of connection.py: types only, never behaviour.
cimport cython
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from parser.machine cimport Parser
from broker.dataplane.frame cimport Frame
from broker.dataplane.guard cimport Guard, OpenRequests
from sublist.subscription cimport Subscription

cdef extern from "copy.h":
    void copy_span(unsigned char *to, const unsigned char *source, size_t size) noexcept

cdef extern from "sys/socket.h":
    ssize_t send(int fd, const void *data, size_t size, int flags) noexcept
    int MSG_NOSIGNAL

cdef enum:
    BUFFER_MIN = 4096
    SEGMENT = 262144
    LARGE_STEP = 65536
    SPARE_MAX = 33554432
    SPARE_LARGEST = 2097152
    LOOKED_AT = 4

cdef extern from *:
    """
    #define exports_of(buffer) (((PyByteArrayObject *)(buffer))->ob_exports)
    """
    Py_ssize_t exports_of(bytearray buffer) noexcept

cpdef bytearray unset_bytes(Py_ssize_t size)
cpdef bint is_viewed(bytearray buffer) except *
@cython.cdivision(True)
cpdef Py_ssize_t whole_steps(Py_ssize_t size) noexcept

@cython.final
cdef class Budget:
    cdef public Py_ssize_t limit, bytes

    cdef bint is_exceeded(self) noexcept

@cython.final
cdef class SpareBuffers:
    cdef readonly list buffers
    cdef readonly Py_ssize_t bytes

    @cython.locals(buffer=bytearray, at=Py_ssize_t, last=Py_ssize_t)
    cpdef bytearray take(self, Py_ssize_t need, Py_ssize_t most)
    @cython.locals(size=Py_ssize_t)
    cpdef keep(self, bytearray buffer)
    cpdef drop(self)

@cython.final
cdef class Connection:
    cdef readonly object session
    cdef public int fd
    cdef readonly Parser parser
    cdef readonly dict subs
    cdef public Subscription answered
    # the outbox
    cdef bytearray buffer
    cdef unsigned char *data
    cdef Py_ssize_t size, end
    cdef readonly object waiting
    cdef readonly Py_ssize_t waiting_bytes, unsent
    cdef public Py_ssize_t max_pending
    cdef Budget budget
    cdef public bint dirty, reading, writable, lagging, closed, detached, shows_number
    # the fence; positions count all bytes ever put into the outbox
    cdef readonly unsigned long long sent_pos, allowed_pos, sealed_pos
    cdef unsigned long long turn_start
    cdef readonly bint fenced
    cdef readonly bint shutting
    cdef public unsigned long long origin
    cdef public unsigned long long placed
    cdef public Py_ssize_t awaited, most_numbered
    cdef public Py_ssize_t deferred_numbers
    # the client's rights
    cdef public bint stranger
    cdef public Guard guard
    cdef public OpenRequests requests
    # the client's options
    cdef public bint verbose, pedantic, echo, headers, no_responders
    cdef readonly bint chatty
    cdef public bint keeps_order
    cdef public bytes halted
    cdef public bint chose_frame
    cdef readonly str frame
    cdef readonly int shape, headed_shape
    # counters of messages and of payloads with headers, as nats-server counts them
    cdef readonly unsigned long long in_msgs, in_bytes, out_msgs, out_bytes

    cpdef settle(self, str frame)
    cpdef agree(self, bint verbose, bint pedantic, bint echo, bint headers, bint no_responders, str frame)
    @cython.locals(end=Py_ssize_t, head=Py_ssize_t, to='unsigned char *')
    cdef bint deliver(self, Frame frame, const unsigned char *data, Py_ssize_t payload,
                      Py_ssize_t size, Py_ssize_t counted) noexcept
    @cython.locals(end=Py_ssize_t, to='unsigned char *')
    cdef bint add_message(self, const unsigned char *line, Py_ssize_t line_size,
                          const unsigned char *data, Py_ssize_t body, Py_ssize_t size) noexcept
    @cython.locals(size=Py_ssize_t)
    cdef bint write(self, bytes text) except -1
    cpdef Py_ssize_t held(self)
    cpdef Py_ssize_t kept(self)
    cpdef note_unsent(self, Py_ssize_t count)
    @cython.locals(size=Py_ssize_t, held=Py_ssize_t, buffer=bytearray, kept=bytearray)
    cdef bint make_room(self, Py_ssize_t need, SpareBuffers spare) except -1
    cdef _adopt(self, bytearray buffer)
    cpdef bytearray take_buffer(self)
    cpdef shut(self)
    cpdef drop_output(self)
    @cython.locals(size=Py_ssize_t)
    cdef _next_waiting(self)
    @cython.locals(size=Py_ssize_t)
    cpdef drain(self, object write, bint stalled=*)
    @cython.locals(sent=Py_ssize_t, end=Py_ssize_t)
    cdef bint send_at_once(self) except -1
    cdef _emptied(self, Py_ssize_t count)
    cpdef unsigned long long position(self)
    cpdef raise_fence(self)
    cpdef seal(self)
    cpdef bint lower_fence(self)
    @cython.locals(size=Py_ssize_t, left=Py_ssize_t)
    cpdef bint overtake(self, bytes text) except -1
    cdef Py_ssize_t _passable(self, Py_ssize_t size) noexcept
    cpdef Py_ssize_t buffered(self)
