# The compiler's view of pull_requests.py: types only, never behaviour.
cimport cython

@cython.final
cdef class PullRequest:
    cdef readonly bytes inbox
    cdef readonly object owner
    cdef public object place
    cdef public long long left, bytes_left, delivered
    cdef public long long expires, heartbeat, beat_at
    cdef readonly bint no_wait
    cdef bint is_aside

@cython.final
cdef class WaitingQueue:
    cdef readonly Py_ssize_t most
    cdef readonly list queue, aside, full_owners, endings
    cdef readonly PullRequest head
    cdef readonly long long soonest

    cpdef bint enqueue(self, PullRequest request, long long now) except -1
    @cython.locals(request=PullRequest)
    cpdef PullRequest next(self, long long total, long long now)
    cdef int _end_first(self, bytes status) except -1
    cpdef int drop_head(self) except -1
    @cython.locals(request=PullRequest, count='long long')
    cpdef long long wanted(self) except? 0
    @cython.locals(request=PullRequest, count=Py_ssize_t)
    cpdef Py_ssize_t count_of(self, object owner) except -1
    @cython.locals(request=PullRequest, kept=list)
    cpdef end_expired(self, long long now)
    @cython.locals(request=PullRequest, kept=list)
    cpdef end_impatient(self)
    @cython.locals(request=PullRequest, kept=list)
    cpdef forget(self, object owner)
    @cython.locals(kept=list)
    cpdef keep_heard(self, object heard)
    @cython.locals(request=PullRequest, kept=list)
    cpdef pass_over(self, object owner, bint is_full)
    cdef list _all(self)
    @cython.locals(request=PullRequest, queue=list, aside=list)
    cdef int _keep(self, list kept) except -1
    @cython.locals(request=PullRequest)
    cpdef list beats(self, long long now)
