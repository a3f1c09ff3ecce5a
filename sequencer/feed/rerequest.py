"""MoldUDP64 re-request server logic: one request datagram in, at most one reply datagram out.

    ask(request, peer, now, safe) -> Search      the request is accepted; None: refused, and counted
    Search.run() -> answer                       None: call `fetch` first, in any thread

The answer is a packet as the feed sends it. It begins with the first number requested and holds
as many messages as fit into one datagram; the peer requests the rest again. Messages that are
not available (deleted, damaged, too long for a datagram) are skipped: the answer then begins
after them, which tells the peer that they are lost. Only safe numbers are answered.

This must not become an amplifier. The bytes per second are limited for each peer and for all of
them together. So is the time spent, which the caller measures (`spent`). A peer over its limit
gets no answer until the debt is paid off. Memory: `PEERS_MAX` peers and one buffer; for each
search that waits for a disk, one more buffer, or one message if that is longer.
"""

from collections.abc import Callable, Hashable
from typing import Final

from sequencer.feed.errors import CodecError
from sequencer.feed.moldudp64 import BROTHERS, parse_request, request
from sequencer.journal.layout import HEADER_SIZE, MORE, RECORD
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sequencer.journal.record import Walk
from sequencer.journal.segment import read_piece
from sequencer.token_bucket import TokenBucket

HEAD_SIZE: Final = 20
BUFFER: Final = 128 << 10
WINDOW: Final = 16 << 10  # read at a time: copying too many bytes costs as much as the rest
WALK_MAX: Final = 1 << 20  # bytes to search for the next available message before answering
REQUEST_COST: Final = 256  # bytes added to each answer's cost: a request is work
PEERS_MAX: Final = 16384  # more than can get answers in the third of a second that one may owe
SHARES: Final = 3  # the time for all peers together, in shares of one peer
DEBT_MAX: Final = 0.25  # seconds without answers for a peer that asked for too much
KNOWN_MAX: Final = 64  # damaged positions whose end is remembered


class Rerequests:
    """The re-request server of one feed; used by the thread that numbers messages.

    A datagram is filled up to `datagram_bytes`; a single message may take up to `datagram_max`.
    `rate` and `total_rate` are bytes per second. `share` is the part of this thread's time that
    one peer may use; all peers together get `SHARES` times that. `matches` is the feed's filter.
    """

    def __init__(
        self,
        journal: ReadableJournal,
        session: bytes,
        *,
        datagram_bytes: int,
        datagram_max: int,
        rate: int,
        total_rate: int,
        share: float = 1.0,
        matches: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.journal = journal
        self.session = session
        self.datagram_bytes = datagram_bytes
        self.datagram_max = datagram_max
        self.matches = matches
        self.buffer = bytearray(BUFFER)
        self.walk = Walk(journal.salt, journal.checked)
        self.known: dict[tuple[int, int], tuple[SegmentView, int, int] | None] = {}
        self._peers = PeerBuckets(rate)
        self._total = bucket(total_rate)
        self._times = PeerBuckets(share)
        self._time = bucket(min(SHARES * share, 1.0))
        self._wasted = bucket(share)  # time for requests that got no answer
        self.requests = self.answered = self.messages = self.bytes = 0
        self.malformed = self.unknown_session = 0
        self.ahead = 0  # requests for numbers that are not given yet, or not safe
        self.limited = 0
        self.failed = 0  # the disk could not be read, or the answer not be sent

    def begin_search(
        self, datagram: bytes, peer: Hashable, now: float, safe: int
    ) -> "Search | None":
        """Check a request that came from `peer` at `now`, in seconds; show nothing above `safe`."""
        self.requests += 1
        try:
            session, first, count = parse_request(datagram)
        except CodecError:
            self.malformed += 1
            return None
        if session[:BROTHERS] != self.session[:BROTHERS]:  # another epoch is fine: numbers go on
            self.unknown_session += 1
            return None
        if first > safe:
            self.ahead += 1
            return None
        buckets = self._peers.of(peer), self._times.of(peer), self._total
        if any(one.level(now) <= 0 for one in buckets):
            self.limited += 1
            return None
        return Search(self, session, first, count, safe, peer)

    def begin_stream(self, session: bytes) -> None:
        """Switch to another stream: the journal of a cluster's member may have been replaced."""
        self.session = session
        self.walk = Walk(self.journal.salt, self.journal.checked)
        self.known.clear()

    def sent(self, search: "Search", answer: bytes, now: float) -> None:
        """Count an answer and its cost, including what was read from the disk."""
        cost = REQUEST_COST + len(answer) + search.fetched_bytes
        self._peers.draw(search.peer, cost, now)
        self._total.spend(cost, now)
        self.answered += 1
        self.messages += search.held
        self.bytes += len(answer)

    def spent(self, peer: Hashable, seconds: float, now: float, answered: bool) -> None:
        """Count the time that a peer's request took."""
        self._time.spend(seconds, now)
        if not answered:
            self._wasted.spend(seconds, now)
        if answered or self._times.of(peer).wait(now) < DEBT_MAX:
            self._times.draw(peer, seconds, now)

    def tired(self, now: float) -> float:
        """Return for how many seconds to ignore requests, because too much time was spent."""
        return max(self._time.wait(now), self._wasted.wait(now))

    def remember(
        self, position: tuple[int, int], good: tuple[SegmentView, int, int] | None
    ) -> None:
        """Remember where the damage at `position` ends."""
        if len(self.known) == KNOWN_MAX:
            self.known.clear()
        self.known[position] = good


class Search:
    """One request, while it is looked up in the journal."""

    def __init__(
        self, asked: Rerequests, session: bytes, first: int, count: int, safe: int, peer: Hashable
    ) -> None:
        self.peer = peer
        self.held = 0  # messages in the answer, including skipped ones
        self.fetched_bytes = 0
        self._asked = asked
        self._session = session
        self._first = self._number = first  # requested; next to look for
        self._count = count
        self._safe = safe
        self._blocks = bytearray()
        self._complete = False
        self._walked = 0
        self._segment: SegmentView | None = None  # held while the search is in it
        self._offset = 0
        self._window = WINDOW
        self._need = 0  # how many bytes `fetch` must read
        self._fetched: bytearray | None = None
        self._bad = -1  # offset of the damage whose end `fetch` must find

    def run(self) -> bytes | None:
        """Continue; return the answer. None: call `fetch`, then `run` again.

        Raises OSError if the disk fails.
        """
        try:
            while not self._is_complete():
                if self._segment is None:
                    self._locate()
                elif not self._step(self._segment):
                    return None
        except BaseException:
            self.release()
            raise
        self.release()
        return self._answer()

    def fetch(self) -> None:
        """Read from the disk, in any thread. Raises OSError if it fails."""
        journal, segment, offset = self._asked.journal, self._segment, self._offset
        assert segment is not None, "`run` has come to where it must be read"
        if self._bad >= 0:
            good = journal.next_good(segment, self._bad, segment.first)
            self._asked.remember((segment.first, self._bad), good)
            self.fetched_bytes += BUFFER
            return
        self._fetched = read_piece(segment, offset, self._need)
        self.fetched_bytes += len(self._fetched)

    def release(self) -> None:
        """Release the position in the journal."""
        if self._segment is not None:
            self._segment.release()
            self._segment = None

    def _is_complete(self) -> bool:
        beyond = self._number > self._safe or self.held == self._count
        # In a long range without messages, the peer gets how far the search came.
        tired = self._walked > WALK_MAX and self.held == 0 and self._number > self._first
        return self._complete or beyond or tired

    def _answer(self) -> bytes:
        """Return the packet; without messages it is a heartbeat with the next available number."""
        assert self.held or self._number > self._first, "the number was found, or skipped"
        return request(self._session, self._number - self.held, self.held) + self._blocks

    # Places

    def _locate(self) -> None:
        """Go to the place of the next number."""
        journal = self._asked.journal
        self._want(min(journal.first, self._safe + 1))
        if not self._is_complete():
            segment, offset = journal.locate(self._number)
            if not segment.gone:
                self._enter(segment, offset)

    def _enter(self, segment: SegmentView, offset: int) -> None:
        segment.hold()
        self.release()
        self._segment, self._offset = segment, offset

    def _want(self, number: int) -> None:
        """Note the next available number: an answer with messages ends before a gap."""
        if number > self._number:
            if self.held:
                self._complete = True
            else:
                self._number = number

    def _step(self, segment: SegmentView) -> bool:
        """Use one buffer of records, or go to the next segment. False: `fetch` must read first."""
        data = self._fetched
        fetched, self._fetched = data is not None, None
        self._need = 0
        if self._bad >= 0:
            self._pass_damage(segment, self._bad)
            return self._bad < 0
        if data is None:
            data = self._asked.buffer
            try:
                with memoryview(data) as view:
                    size = segment.read(self._offset, view[: self._window], False)
            except BlockingIOError:
                self._need = BUFFER
                return False
            except OSError:
                if not segment.gone:
                    raise
                self.release()  # it was just deleted
                return True
        else:
            size = len(data)
        if size == 0:
            self._move_on(segment)
            return True
        return self._walk(segment, data, size, fetched)

    def _move_on(self, segment: SegmentView) -> None:
        """Go on after the end of a segment."""
        following = segment.following
        if following is None:
            self._want(self._safe + 1)
            self._complete = True
        elif following.gone:
            self.release()
        else:
            self._want(following.first)
            self._enter(following, following.start)

    # Records

    def _walk(self, segment: SegmentView, data: bytearray, size: int, fetched: bool) -> bool:
        """Use the records in `data[:size]`. False: `fetch` must read first."""
        walk = self._asked.walk
        walk.attach(data, 0, size)
        wanted = self._number
        walk.seek(wanted)
        while (outcome := walk.next()) == RECORD:
            if walk.number < wanted:
                continue
            self._want(min(walk.number, self._safe + 1))
            if self._is_complete():
                return True
            self._take(data)
            if self._is_complete():
                return True
            wanted = self._number
        self._offset += walk.at
        self._walked += walk.at
        if outcome != MORE:
            self._pass_damage(segment, self._offset)
        elif walk.at == 0:
            self._lengthen(segment, data, size, fetched)
        return self._need == 0 and self._bad < 0

    def _take(self, data: bytearray) -> None:
        """Put the current record into the answer, or complete the answer if it does not fit."""
        asked, walk = self._asked, self._asked.walk
        block = bytes(2)
        if asked.matches is None or asked.matches(
            bytes(data[walk.subject : walk.subject + walk.subject_size])
        ):
            if self._is_too_long():
                self._want(walk.number + 1)
                return
            payload = data[walk.payload : walk.payload + walk.payload_size]
            block = len(payload).to_bytes(2, "big") + payload
        if self.held and HEAD_SIZE + len(self._blocks) + len(block) > asked.datagram_bytes:
            self._complete = True
            return
        self._blocks += block
        self.held += 1
        self._number += 1

    def _is_too_long(self) -> bool:
        return HEAD_SIZE + 2 + self._asked.walk.payload_size > self._asked.datagram_max

    def _lengthen(self, segment: SegmentView, data: bytearray, size: int, fetched: bool) -> None:
        """The buffer held no whole record: read more, or skip a long one."""
        walk, left = self._asked.walk, segment.readable - self._offset
        need = HEADER_SIZE
        if size >= HEADER_SIZE:
            need = (int.from_bytes(data[4:8], "little") + 7) & ~7
        if need > left or (fetched and size >= need):
            self._pass_damage(segment, self._offset)
        elif size == self._window < BUFFER:
            self._window = BUFFER
        elif need <= BUFFER:
            self._need = BUFFER
        elif walk.number < self._number or (self._asked.matches is None and self._is_too_long()):
            if walk.number >= self._number:
                self._want(walk.number + 1)
            self._offset += need
            self._walked += need
        else:
            self._need = need

    def _pass_damage(self, segment: SegmentView, at: int) -> None:
        """Go on with the next good record after a damaged one, once `fetch` has found it."""
        position = (segment.first, at)
        self._bad = -1
        if position not in self._asked.known:
            self._bad = at
            return
        good = self._asked.known[position]
        if good is None:
            self._want(self._safe + 1)
            self._complete = True
        elif good[0].gone:
            self.release()
        else:
            self._enter(good[0], good[1])


class PeerBuckets:
    """A token bucket for each peer: those who drew last, at most `PEERS_MAX`."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: dict[Hashable, TokenBucket] = {}

    def of(self, peer: Hashable) -> TokenBucket:
        """Return a peer's bucket; a full one, which is not kept, if it is not known."""
        known = self._buckets.get(peer)
        return known if known is not None else bucket(self._rate)

    def draw(self, peer: Hashable, size: float, now: float) -> None:
        """Take tokens from a peer's bucket, and keep that."""
        drawn = self.of(peer)
        drawn.spend(size, now)
        self._buckets.pop(peer, None)
        if len(self._buckets) == PEERS_MAX:
            del self._buckets[next(iter(self._buckets))]  # idle for the longest time
        self._buckets[peer] = drawn


def bucket(rate: float) -> TokenBucket:
    """Return a bucket for this rate, of which a quarter second's may be used at once."""
    return TokenBucket(rate, rate / 4)
