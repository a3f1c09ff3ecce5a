# The compiler's view of subscriptions.py: types only, never behaviour.
cimport cython
from broker.dataplane.connection cimport Connection
from broker.dataplane.kinds cimport Classifier
from broker.dataplane.plane cimport Plane
from broker.limits.matches cimport Matches, UserMatches
from broker.limits.subscription_total cimport SubscriptionTotal
from parser.machine cimport Parser
from sublist.subject cimport is_pattern
from sublist.sublist cimport Sublist
from sublist.subscription cimport Subscription

cdef enum:
    DIGITS_MAX = 9
    COUNTED_WORK = 8

@cython.final
cdef class Subscriptions:
    cdef object control, core
    cdef public Plane plane
    cdef Sublist sublist
    cdef readonly Classifier classifier
    cdef readonly Matches matches
    cdef readonly UserMatches user_matches
    cdef readonly SubscriptionTotal total
    cdef public Py_ssize_t refused_for_count, refused_for_tokens

    @cython.locals(parser=Parser, subject=bytes, queue=bytes, sid=bytes)
    cpdef subscribe(self, Connection connection)
    @cython.locals(subs=dict, most=Py_ssize_t)
    cpdef begin(self, Connection connection, bytes subject, bytes queue, bytes sid)
    @cython.locals(sub=Subscription)
    cdef _begin_live(self, Connection connection, bytes subject, bytes sid, bytes queue)
    cpdef take_place(self, Subscription sub)
    cpdef judge(self, Connection connection, bytes subject)
    @cython.locals(parser=Parser, sid=bytes, most='unsigned long long')
    cpdef unsubscribe(self, Connection connection)
    @cython.locals(sub=Subscription)
    cpdef end(self, Connection connection, bytes sid, unsigned long long most)
    @cython.locals(subs=dict)
    cpdef finish(self, Subscription sub)
    @cython.locals(connection=Connection, is_live=bint)
    cpdef remove(self, Subscription sub)

@cython.locals(data='const unsigned char *')
cdef bytes span(Parser parser, Py_ssize_t at, Py_ssize_t end)
@cython.locals(data='const unsigned char *', at=Py_ssize_t, end=Py_ssize_t, digit=int,
               number='unsigned long long')
cdef unsigned long long limit_of(Parser parser) noexcept
cpdef bytes late_key(Subscription sub)
