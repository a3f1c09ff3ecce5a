"""Pull requests that wait for messages, in the order in which they are served.

    enqueue(request)      false if the queue is full
    pass_over(owner)      its connection takes no more at present: others go on
    next(total, now)      the request that gets a message of so many bytes; it is counted then
    end_expired, beat     by the clock
    forget(owner)         its connection is gone
    keep_heard(heard)     requests to whose inboxes nobody listens any more are gone

Requests take turns: whoever has got a message, and wants more, goes to the end. A request ends with
its last message, or with exactly one status: these are in `endings`, as (request, status), until
the caller has sent them. A request is 200 bytes; there are at most `most`.
"""

from collections.abc import Callable
from typing import Final

NEVER: Final = (1 << 63) - 1  # later than any time
NO_MESSAGES: Final = b"NATS/1.0 404 No Messages\r\n\r\n"


class PullRequest:
    """A request for messages. Times are the consumer's steady clock, in ns; 0: none."""

    def __init__(
        self,
        inbox: bytes,
        owner: object,
        batch: int = 1,
        max_bytes: int = 0,
        expires: int = 0,
        heartbeat: int = 0,
        no_wait: bool = False,
    ) -> None:
        self.inbox = inbox
        self.owner = owner  # who has asked: the caller's connection
        self.place: object = None  # where its messages go, kept there by the caller
        self.left = batch
        self.bytes_left = max_bytes  # 0: no limit
        self.delivered = 0
        self.expires = expires  # a time
        self.heartbeat = heartbeat  # a duration
        self.beat_at = 0
        self.no_wait = no_wait
        self.is_aside = False

    @property
    def is_done(self) -> bool:
        """True if it has got its last message."""
        return self.left <= 0

    def with_pending(self, status: bytes) -> bytes:
        """Return a status, and what the request did not get."""
        pending = b"Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n"
        return b"NATS/1.0 %b\r\n" % status + pending % (self.left, self.bytes_left)


class WaitingQueue:
    """The requests of one consumer."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.queue: list[PullRequest] = []
        self.head: PullRequest | None = None  # the first of the queue
        self.aside: list[PullRequest] = []  # those whose owners take no more at present
        self.full_owners: list[object] = []  # these owners
        self.endings: list[tuple[PullRequest, bytes]] = []
        self.soonest = NEVER  # no request has anything to do before

    def __len__(self) -> int:
        return len(self.queue) + len(self.aside)

    def enqueue(self, request: PullRequest, now: int) -> bool:
        """Add a request at the end; return False if there is no room."""
        if len(self.queue) + len(self.aside) >= self.most:
            return False
        request.is_aside = request.owner in self.full_owners
        self._keep([*self.queue, *self.aside, request])
        if request.heartbeat:
            request.beat_at = now + request.heartbeat
            self.soonest = min(self.soonest, request.beat_at)
        if request.expires:
            self.soonest = min(self.soonest, request.expires)
        return True

    def next(self, total: int, now: int) -> PullRequest | None:
        """Return the request that gets a message of `total` bytes, and count it; or None.

        Those at the front that have expired, or for which it is too large, end here.
        """
        while True:
            request = self.head
            if request is None:
                return None
            if request.expires and request.expires <= now:
                self._end_first(request.with_pending(b"408 Request Timeout"))
                continue
            if request.bytes_left:
                if total > request.bytes_left:
                    self._end_first(request.with_pending(b"409 Message Size Exceeds MaxBytes"))
                    continue
                request.bytes_left -= total
                if request.bytes_left == 0:
                    request.left = 1  # it gets this one, and no more
            request.left -= 1
            request.delivered += 1
            if request.left <= 0:
                self.drop_head()
                return request
            if request.heartbeat:
                request.beat_at = now + request.heartbeat
            if len(self.queue) > 1:
                self.drop_head()
                self.queue.append(request)
            return request

    def _end_first(self, status: bytes) -> int:
        self.endings.append((self.queue[0], status))
        return self.drop_head()

    def drop_head(self) -> int:
        """Let the first one end, without a status."""
        del self.queue[0]  # moving at most 512 others costs less than a deque's block of memory
        self.head = self.queue[0] if self.queue else None
        return 0

    def count_of(self, owner: object) -> int:
        """Return how many requests of a connection wait."""
        count = 0
        for request in self._all():
            count += request.owner is owner
        return count

    # By the clock, and by what others do

    def wanted(self) -> int:
        """Return how many messages all requests wait for."""
        count = 0
        for request in self._all():
            count += request.left
        return count

    def end_expired(self, now: int) -> None:
        """End those whose time is over."""
        kept: list[PullRequest] = []
        for request in self._all():
            if request.expires and request.expires <= now:
                self.endings.append((request, request.with_pending(b"408 Request Timeout")))
            else:
                kept.append(request)
        self._keep(kept)

    def end_impatient(self) -> None:
        """End those that do not wait, because there is nothing for them now.

        One with a time to expire, that has got nothing yet, waits nevertheless.
        """
        kept: list[PullRequest] = []
        for request in self._all():
            if request.no_wait and (not request.expires or request.delivered > 0):
                self.endings.append((request, NO_MESSAGES))
            else:
                kept.append(request)
        self._keep(kept)

    def end_all(self, status: bytes) -> None:
        """End all with this status."""
        for request in self._all():
            self.endings.append((request, status))
        self._keep([])

    def forget(self, owner: object) -> None:
        """Forget the requests of a connection that is gone; nothing is said to it."""
        kept: list[PullRequest] = []
        for request in self._all():
            if request.owner is not owner:
                kept.append(request)
        self._keep(kept)
        self.full_owners = [one for one in self.full_owners if one is not owner]

    def keep_heard(self, heard: Callable[[PullRequest], bool]) -> None:
        """Keep the requests for which this says true: their clients still listen."""
        kept = self._all()
        if not all(map(heard, kept)):
            self._keep([request for request in kept if heard(request)])

    def pass_over(self, owner: object, is_full: bool) -> None:
        """Pass over the requests of a connection while its outbox is full."""
        if is_full == (owner in self.full_owners):
            return
        self.full_owners = [one for one in self.full_owners if one is not owner]
        if is_full:
            self.full_owners.append(owner)
        kept = self._all()
        for request in kept:
            if request.owner is owner:
                request.is_aside = is_full
        self._keep(kept)

    def _all(self) -> list[PullRequest]:
        return self.queue + self.aside

    def _keep(self, kept: list[PullRequest]) -> int:
        if self.full_owners:
            queue: list[PullRequest] = []
            aside: list[PullRequest] = []
            for request in kept:
                if request.is_aside:
                    aside.append(request)
                else:
                    queue.append(request)
            self.queue, self.aside = queue, aside
        else:
            self.queue, self.aside = kept, []
        self.head = self.queue[0] if self.queue else None
        return 0

    def beats(self, now: int) -> list[PullRequest]:
        """Return the requests whose heartbeat is due, and set their next one."""
        due, soonest = [], NEVER
        for request in self._all():
            if request.heartbeat:
                if request.beat_at <= now:
                    due.append(request)
                    request.beat_at = now + request.heartbeat
                soonest = min(soonest, request.beat_at)
            if request.expires:
                soonest = min(soonest, request.expires)
        self.soonest = soonest
        return due
