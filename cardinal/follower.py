"""What stands between the messages of all topics and an application: whole blocks, in order.

    rows (topic, key, value, offset) --> Assembler --> Chain --> Step(update, token)
             `-- each reorg channel, an assembler of its own --^

In: rows as they come from a transport or a file. Out: events. A `Step` carries an update of the
chain, and the token to store with it: who begins to read there again gets all that is not in the
state yet. A token reaches back over the blocks that are kept for reorgs, those that wait, and
those that are not whole, so no margin has to be guessed.

A topic `reorg.*` is a channel: what comes between its Reorg and its ReorgComplete is given to the
chain as a whole, at its end, so that a producer that dies between the two holds up nobody. A
channel of which nothing comes for `age_max` seconds is given up; its blocks are ordinary ones then,
as are those of a channel whose Reorg was not seen.

Memory: that of the assembler and the chain, and for each of `CHANNELS_MAX` channels that of an
assembler, and as many whole blocks as a chain may have to spare. No clock, no I/O.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from cardinal.assembler import (
    AGE_MAX_SECONDS,
    BLOCKS_MAX,
    BYTES_MAX,
    REMEMBER,
    Assembler,
    Dropped,
    Evicted,
)
from cardinal.assembler import Event as Assembled
from cardinal.block import Block
from cardinal.chain import THRESHOLD, Chain
from cardinal.message import NUMBER_MAX, Reorg, ReorgComplete
from cardinal.schema import REORG_TOPIC, Tracking
from cardinal.token import format_token
from cardinal.update import ChainUpdate, Stalled, Unlinked
from cardinal.update import Event as Linked

CHANNELS_MAX = 16  # a reorg is rare; two producers may announce it differently
TOPICS_MAX = 1024  # topics of which it is remembered whether they are tracked

Row = tuple[str, bytes, bytes, int]  # topic, key, value, offset


@dataclass(frozen=True, slots=True)
class Step:
    """An update of the chain, and the token to store with it."""

    update: ChainUpdate
    token: str


@dataclass(frozen=True, slots=True)
class ChannelGivenUp:
    """A reorg was announced and never completed; `why` is "age", "count", "blocks" or "bytes"."""

    topic: str
    why: str


Event = Step | Unlinked | Stalled | Dropped | Evicted | ChannelGivenUp


class Lane:
    """The assembler of the ordinary topics, or of one channel."""

    __slots__ = ("ancestor", "assembler", "begun", "blocks", "bytes", "heard", "topic")

    def __init__(self, topic: str, assembler: Assembler) -> None:
        self.topic = topic  # empty: the ordinary ones
        self.assembler = assembler
        self.ancestor: Reorg | None = None  # of an open channel
        self.blocks: list[Block] = []  # that have come on it
        self.bytes = 0  # of these
        self.begun = NUMBER_MAX  # the lowest offset of an open channel
        self.heard = 0.0

    def floor(self, source: str) -> int:
        """Of a channel: where to begin again to have all of it that is still wanted."""
        if self.ancestor is None and not self.assembler.pending:
            return NUMBER_MAX
        return self.begun


class Follower:
    """Follows one chain; one writer."""

    def __init__(
        self,
        tracking: Tracking | None = None,
        *,
        start: bytes | None = None,
        number: int | None = None,
        threshold: int = THRESHOLD,
        whitelist: Mapping[int, bytes] | None = None,
        bootstrap: int = 1,
        skip: Mapping[str, Container[int]] | None = None,
        blocks_max: int = BLOCKS_MAX,
        bytes_max: int = BYTES_MAX,
        age_max: float = AGE_MAX_SECONDS,
        remember: int = REMEMBER,
    ) -> None:
        """`start` and `number` are of the last block that was applied; see `Chain`, `Assembler`."""
        self.chain = Chain(
            start,
            number=number,
            threshold=threshold,
            whitelist=whitelist,
            bootstrap=bootstrap,
            spare_bytes_max=bytes_max,
        )
        self.age_max = age_max
        self.passed_by = 0  # rows of topics that are not tracked
        self._topics = None if tracking is None else frozenset(tracking.topics)
        self._assembler_options = {
            "tracked": tracking,
            "skip": skip,
            "blocks_max": blocks_max,
            "bytes_max": bytes_max,
            "age_max": age_max,
            "remember": remember,
        }
        self._main = Lane("", self._assembler())
        self._lanes: dict[str, Lane | None] = {}  # by topic; None: not tracked
        self._channels: dict[str, Lane] = {}  # by topic, the oldest first
        self._first: dict[str, int] = {}  # of each source, the offset of the first row
        self._events: list[Event] = []

    @property
    def assembler(self) -> Assembler:
        """That of the ordinary topics: its counters, and what is pending."""
        return self._main.assembler

    @property
    def channels(self) -> list[str]:
        """The topics of the reorgs that were announced and are not complete yet."""
        return [one.topic for one in self._channels.values() if one.ancestor is not None]

    @property
    def retained(self) -> list[Block]:
        """Every whole block that is kept: by the chain, or until its channel is complete."""
        waiting = [block for one in self._channels.values() for block in one.blocks]
        return [*self.chain.retained, *waiting]

    def knows(self, hash: bytes) -> bool:
        """Whether this block has come whole, and is not forgotten."""
        waiting = (block.hash for one in self._channels.values() for block in one.blocks)
        return self.chain.knows(hash) or hash in waiting

    def take(self, rows: Sequence[Row], source: str, now: float) -> list[Event]:
        """Take rows of one source, in their order; return what came of them."""
        lanes, lane = self._lanes, self._main
        run: list[tuple[bytes, bytes, int]] = []
        if rows:
            self._first.setdefault(source, rows[0][3])
        for topic, key, value, offset in rows:
            here = lanes[topic] if topic in lanes else self._lane(topic, now)
            if here is not lane:
                if here is None:
                    self.passed_by += 1
                    continue
                if run:
                    self._feed(lane, run, source, now)
                    run = []
                lane = here
            run.append((key, value, offset))
        self._feed(lane, run, source, now)
        return self._told(source, now)

    def follow(
        self, event: Block | Reorg | ReorgComplete, topic: str, source: str, now: float
    ) -> list[Event]:
        """Take what an assembler elsewhere has made of messages, in the order it came to be.

        `topic` is that of its channel, or empty.
        """
        lane = (self._lanes.get(topic) or self._lane(topic, now)) if topic else self._main
        assert lane is not None, f"{topic} is no channel"
        lane.heard = now
        self._link(lane, [event], source)
        return self._told(source, now)

    def rewind(self, source: str, first: int) -> None:
        """The source has taken back all from offset `first` on, and gives these anew."""
        self._main.assembler.rewind(source, first)
        for channel in self._channels.values():
            channel.assembler.rewind(source, first)
            channel.begun = min(channel.begun, first)
            for block in channel.blocks:
                if source in block.token:
                    block.token[source] = min(block.token[source], first)
        self.chain.rewind(source, first)
        if source in self._first:
            self._first[source] = min(self._first[source], first)

    def _told(self, source: str, now: float) -> list[Event]:
        for channel in list(self._channels.values()):
            if channel.heard + self.age_max < now:
                self._give_up(channel, "age", source)
        events, self._events = self._events, []
        return events

    def token(self, source: str, waiting: int = NUMBER_MAX) -> str:
        """Where to begin again; `waiting`: the lowest offset of what is not in the chain yet."""
        floors = [waiting, max(self._main.assembler.floor(source), self._first.get(source, 0))]
        floors += [channel.floor(source) for channel in self._channels.values()]
        retained = self.chain.floor(source)
        return format_token({source: min(floors if retained is None else [*floors, retained])})

    def _assembler(self) -> Assembler:
        return Assembler(**self._assembler_options)  # type: ignore[arg-type]

    def _lane(self, topic: str, now: float) -> Lane | None:
        """Whose the rows of a topic are, seen for the first time or again after its channel."""
        if topic.split(".")[0] == REORG_TOPIC:
            lane = self._channels[topic] = Lane(topic, self._assembler())
            self._lanes[topic] = lane
            lane.heard = now
            return lane
        tracked = self._topics is None or topic in self._topics
        found = self._main if tracked else None
        if len(self._lanes) < TOPICS_MAX:
            self._lanes[topic] = found
        return found

    def _feed(
        self, lane: Lane, run: Sequence[tuple[bytes, bytes, int]], source: str, now: float
    ) -> None:
        """Give a lane its rows, and the chain what becomes of them."""
        if run and lane.topic:
            lane.heard = now
            lane.begun = min(lane.begun, run[0][2])
        self._link(lane, lane.assembler.feed(run, source, now), source)

    def _link(self, lane: Lane, events: Sequence[Assembled], source: str) -> None:
        """Give the chain what has become of a lane's rows."""
        waiting = [NUMBER_MAX]  # behind each event, the lowest offset of the blocks that follow
        for event in reversed(events):
            lowest = event.token.get(source, NUMBER_MAX) if isinstance(event, Block) else NUMBER_MAX
            waiting.append(min(waiting[-1], lowest))
        for place, event in enumerate(events, 2):
            after = waiting[-place]
            if isinstance(event, Block):
                if lane.ancestor is None:
                    self._add([event], source, after)
                else:
                    self._collect(lane, event, source, after)
            elif isinstance(event, Reorg):
                if lane.topic and lane.ancestor is None:
                    lane.ancestor = event
                    # It may have been closed, or given up, since these rows were found to be its.
                    self._lanes[lane.topic] = self._channels[lane.topic] = lane
            elif isinstance(event, ReorgComplete):
                if lane.topic:
                    self._complete(lane, source, after)
            else:
                self._events.append(event)
        if lane.topic and self._channels.get(lane.topic) is not lane:
            self._abandon(lane)
        if len(self._channels) > CHANNELS_MAX:
            self._give_up(next(iter(self._channels.values())), "count", source)

    def _tell(
        self, events: Sequence[Linked], source: str, waiting: int, before: int = NUMBER_MAX
    ) -> None:
        """`before`: the lowest offset of what the chain had and was given. The last of several
        updates may have made it forget what the others need."""
        left = sum(isinstance(event, ChainUpdate) for event in events)
        for event in events:
            if isinstance(event, ChainUpdate):
                left -= 1
                token = self.token(source, min(waiting, before) if left else waiting)
                self._events.append(Step(event, token))
            else:
                self._events.append(event)

    def _before(self, blocks: Sequence[Block], source: str) -> int:
        floors = [block.token.get(source, NUMBER_MAX) for block in blocks]
        retained = self.chain.floor(source)
        return min([*floors, NUMBER_MAX if retained is None else retained])

    def _add(self, blocks: Sequence[Block], source: str, waiting: int) -> None:
        """Give the chain blocks, one after the other."""
        after = [waiting]
        for block in reversed(blocks):
            after.append(min(after[-1], block.token.get(source, NUMBER_MAX)))
        for place, block in enumerate(blocks, 2):
            before = self._before([block], source)
            self._tell(self.chain.add(block), source, after[-place], before)

    def _collect(self, lane: Lane, block: Block, source: str, waiting: int) -> None:
        """Keep a block until its channel is complete."""
        lane.blocks.append(block)
        lane.bytes += block.size
        if len(lane.blocks) > self.chain.spare_max:
            self._give_up(lane, "blocks", source, waiting)
        elif lane.bytes > self.chain.spare_bytes_max:
            self._give_up(lane, "bytes", source, waiting)

    def _close(self, lane: Lane) -> tuple[Reorg | None, list[Block]]:
        """The channel is at its end: what has announced it, and its blocks."""
        self._channels.pop(lane.topic, None)
        self._lanes.pop(lane.topic, None)
        found = lane.ancestor, lane.blocks
        lane.ancestor, lane.blocks, lane.bytes = None, [], 0
        return found

    def _complete(self, lane: Lane, source: str, waiting: int) -> None:
        reorg, blocks = self._close(lane)
        if reorg is not None:
            before = min(lane.begun, self._before(blocks, source))
            events = self.chain.branch(reorg.hash, blocks, {source: lane.begun}, reorg.number)
            self._tell(events, source, waiting, before)

    def _give_up(self, lane: Lane, why: str, source: str, waiting: int = NUMBER_MAX) -> None:
        reorg, blocks = self._close(lane)
        if reorg is not None:
            self._events.append(ChannelGivenUp(lane.topic, why))
        self._add(blocks, source, waiting)
        self._abandon(lane)

    def _abandon(self, lane: Lane) -> None:
        """Tell what is not whole of a channel that was closed, unless another has brought it."""
        waiting = {block.hash for one in self._channels.values() for block in one.blocks}
        for event in lane.assembler.give_up("channel"):
            known = isinstance(event, Evicted) and (
                event.hash in waiting or self.chain.knows(event.hash)
            )
            if isinstance(event, Dropped | Evicted) and not known:
                self._events.append(event)
