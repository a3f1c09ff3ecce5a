"""Turns the messages of all topics into whole blocks, in order, for an application.

    rows (topic, key, value, offset) --> Assembler --> Chain --> Step(update, token)
             `-- each reorg channel, an assembler of its own --^

In: rows from a transport or a file. Out: events. A `Step` carries an update of the chain, and the
token to store with it: reading from there gives everything that is not in the state yet. A token
has an offset for every source, low enough for all blocks that are kept for reorgs, that wait, or
that are incomplete. So there is no safety margin to guess.

Without a start, the chain begins with the lowest block on its way (`start.py`).

A topic `reorg.*` is a channel. Everything between its Reorg and its ReorgComplete goes to the chain
together, at the end, so a producer that dies in between delays no other. A channel that brings
nothing for `age_max` seconds is given up. Its blocks are then ordinary ones, as are those of a
channel whose Reorg was not seen. On any other topic a Reorg is dropped and reported. A topic may
belong to several reorgs at a time, for example because the producer of one has died: each is
complete at its own end, with the blocks that descend from its ancestor.

Memory: that of the assembler and the chain; for each of `CHANNELS_MAX` channels that of an
assembler, and as many whole blocks as a chain may have to spare. No clock, no I/O.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

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
from cardinal.messages import NUMBER_MAX, Reorg, ReorgComplete
from cardinal.schema import REORG_TOPIC, Tracking
from cardinal.start import BLOCKS_MAX as HOLD_BLOCKS
from cardinal.start import SECONDS as HOLD_SECONDS
from cardinal.start import Start
from cardinal.token import check_name, format_token, read_token
from cardinal.update import ChainUpdate, Stalled, Unlinked
from cardinal.update import Event as Linked

CHANNELS_MAX = 16  # a reorg is rare; two producers may announce it differently
TOPICS_MAX = 1024  # remembered topics, each tracked or not

Row = tuple[str, bytes, bytes, int]  # topic, key, value, offset
Places = Mapping[str, int]  # an offset for each source
NOWHERE: Places = {}


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


@dataclass(frozen=True, slots=True)
class NotOpen:
    """A ReorgComplete whose Reorg was not seen, on a channel with other open reorgs."""

    topic: str
    hash: bytes  # the ancestor's
    number: int

    def __str__(self) -> str:
        return (
            f"the end of a reorg on {self.topic}, of block {self.number} {self.hash.hex()}, whose"
            " beginning was not seen; other reorgs open there are not affected"
        )


Event = Step | Unlinked | Stalled | Dropped | Evicted | ChannelGivenUp | NotOpen


class Lane:
    """The ordinary topics, or one channel, with an assembler."""

    __slots__ = ("assembler", "begun", "blocks", "bytes", "heard", "reorgs", "topic")

    def __init__(self, topic: str, assembler: Assembler, heard: float = 0.0) -> None:
        self.topic = topic  # empty: the ordinary topics
        self.assembler = assembler
        self.reorgs: dict[bytes, Reorg] = {}  # the open ones, by ancestor
        self.blocks: list[Block] = []  # whole blocks on this channel
        self.bytes = 0  # of `blocks`
        # for each source, the lowest offset since the channel was opened
        self.begun: dict[str, int] = {}
        self.heard = heard

    def keep(self, blocks: Sequence[Block]) -> None:
        """Keep only these of its blocks."""
        self.blocks = [*blocks]
        self.bytes = sum(block.size for block in blocks)

    def collect(self, block: Block) -> None:
        """Keep a block until the channel is complete."""
        self.blocks.append(block)
        self.bytes += block.size

    def floor(self, source: str) -> int:
        """Return where to resume to get all of a channel that is still needed."""
        if not self.reorgs and not self.assembler.pending:
            return NUMBER_MAX
        return self.begun.get(source, NUMBER_MAX)


class ChainFollower:
    """The follower of one chain; one writer."""

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
        hold: bool = True,
        hold_seconds: float = HOLD_SECONDS,
        hold_blocks: int = HOLD_BLOCKS,
    ) -> None:
        """`start` and `number` belong to the last applied block; see `Chain`, `Assembler`.

        `hold`: whether a chain without a start begins as `start.py` describes, or at once;
        `hold_seconds` and `hold_blocks` are the limits.
        """
        self.chain = Chain(
            start,
            number=number,
            threshold=threshold,
            whitelist=whitelist,
            bootstrap=bootstrap,
            spare_bytes_max=bytes_max,
        )
        self.age_max = age_max
        self._topics = None if tracking is None else frozenset(tracking.topics)
        self._assembler_options = {
            "tracked": tracking,
            "skip": skip,
            "blocks_max": blocks_max,
            "bytes_max": bytes_max,
            "age_max": age_max,
            "remember": remember,
        }
        self._main = Lane("", self._assembler(channel=False))
        self._start = Start(bytes_max, hold_seconds, hold_blocks)
        self._holds = hold and bootstrap == 1  # with more, blocks are passed on as they come
        self._lanes: dict[str, Lane | None] = {}  # by topic; None: not tracked
        self._channels: dict[str, Lane] = {}  # by topic, the oldest first
        self._next: dict[str, int] = {}  # for each source, the offset after everything used
        self._resumed: dict[str, int] = {}  # where the token said to resume
        self._now = 0.0
        self._events: list[Event] = []

    @property
    def assembler(self) -> Assembler:
        """The assembler of the ordinary topics: its counters, and its pending blocks."""
        return self._main.assembler

    @property
    def channels(self) -> list[str]:
        """The topics of announced but incomplete reorgs."""
        return [one.topic for one in self._channels.values() if one.reorgs]

    @property
    def retained(self) -> list[Block]:
        """All retained whole blocks: of the chain, or waiting for their channel to be complete."""
        waiting = [block for one in self._channels.values() for block in one.blocks]
        return [*self.chain.retained, *self._start.held, *waiting]

    def knows(self, hash: bytes) -> bool:
        """True if this block has arrived whole, as far as remembered."""
        blocks = [block for one in self._channels.values() for block in one.blocks]
        waiting = (block.hash for block in [*blocks, *self._start.held])
        return self.chain.knows(hash) or hash in waiting

    def resume(self, token: str) -> dict[str, int]:
        """Resume from a token; return where to read each source. Raises `BadToken`.

        A source that is not in the token must be read from its beginning.
        """
        self._resumed, self.chain.begun = read_token(token)
        return dict(self._resumed)

    def forget(self, source: str) -> None:
        """Forget a source whose offsets are void; tokens leave it out."""
        self._next.pop(source, None)
        self._resumed.pop(source, None)

    def take(self, rows: Sequence[Row], source: str, now: float) -> list[Event]:
        """Handle rows of one source, in their order; return the resulting events.

        Raises `BadToken` if the name of the source cannot be in a token.
        """
        lanes, lane = self._lanes, self._main
        self._now = now
        run: list[tuple[bytes, bytes, int]] = []
        if rows and source not in self._next:
            self._next[check_name(source)] = rows[0][3]
        for topic, key, value, offset in rows:
            here = lanes[topic] if topic in lanes else self._lane(topic, now)
            if here is not lane:
                if here is None:
                    continue
                if run:
                    self._feed(lane, run, source, now)
                    run = []
                lane = here
            run.append((key, value, offset))
        self._feed(lane, run, source, now)
        return self._take_events(now)

    def flush(self) -> list[Event]:
        """Begin the chain although blocks are held back for a parent: no more rows come for now."""
        self._give(self._start.release(), NOWHERE)
        return self._take_events(self._now)

    def follow(
        self, event: Block | Reorg | ReorgComplete, topic: str, source: str, now: float
    ) -> list[Event]:
        """Handle the result of an assembler elsewhere, in the order it happened.

        `topic` is that of its channel, or empty.
        """
        lane = (self._lanes.get(topic) or self._lane(topic, now)) if topic else self._main
        assert lane is not None, f"{topic} is not a channel"
        assert topic or isinstance(event, Block), "only a channel has a Reorg"
        lane.heard = self._now = now
        self._next.setdefault(source, 0)
        self._link(lane, [event])
        return self._take_events(now)

    def rewind(self, source: str, first: int) -> None:
        """Go back: the source reuses the offsets from `first` on for other messages."""
        self._main.assembler.rewind(source, first)
        for channel in self._channels.values():
            channel.assembler.rewind(source, first)
            if source in channel.begun:
                channel.begun[source] = min(channel.begun[source], first)
            for block in channel.blocks:
                if source in block.token:
                    block.token[source] = min(block.token[source], first)
        self.chain.rewind(source, first)
        self._start.rewind(source, first)
        if source in self._next:
            self._next[source] = min(self._next[source], first)

    def _take_events(self, now: float) -> list[Event]:
        for channel in list(self._channels.values()):
            if channel.heard + self.age_max < now:
                self._give_up(channel, "age")
        if self._start.is_over(self._main.assembler.pending, now):
            self._give(self._start.release(), NOWHERE)
        events, self._events = self._events, []
        return events

    def token(self, source: str | None = None) -> str:
        """Return the token to resume from, for all sources or this one."""
        return self._token({}, None if source is None else [source])

    def _token(self, waiting: Places, sources: Sequence[str] | None = None) -> str:
        """Make a token; `waiting`: the lowest offsets of blocks that are not in the chain yet."""
        named = [*self._next] if sources is None else sources
        places = {source: self._floor(source, waiting) for source in named}
        if sources is None:
            places = {**self._resumed, **places}
        return format_token(places, self.chain.begun)

    def _floor(self, source: str, waiting: Places) -> int:
        floors = [waiting.get(source, NUMBER_MAX), self._next.get(source, 0)]
        for floor in (self._main.assembler.lowest(source), self.chain.floor(source)):
            floors += [] if floor is None else [floor]
        floors += [channel.floor(source) for channel in self._channels.values()]
        floors += [block.token.get(source, NUMBER_MAX) for block in self._start.held]
        return min(floors)

    def _assembler(self, *, channel: bool = True) -> Assembler:
        return Assembler(**self._assembler_options, channel=channel)  # type: ignore[arg-type]

    def _lane(self, topic: str, now: float) -> Lane | None:
        """The lane of a topic, seen for the first time or again after its channel."""
        if topic.split(".")[0] == REORG_TOPIC:
            lane = self._channels[topic] = Lane(topic, self._assembler(), now)
            self._lanes[topic] = lane
            return lane
        tracked = self._topics is None or topic in self._topics
        found = self._main if tracked else None
        if len(self._lanes) < TOPICS_MAX:
            self._lanes[topic] = found
        return found

    def _feed(
        self, lane: Lane, run: Sequence[tuple[bytes, bytes, int]], source: str, now: float
    ) -> None:
        """Give a lane its rows, and the chain the results."""
        if run and lane.topic:
            lane.heard = now
            lane.begun[source] = min(lane.begun.get(source, NUMBER_MAX), run[0][2])
        events = lane.assembler.feed(run, source, now)
        if run:
            self._next[source] = max(self._next[source], lane.assembler.following(source))
        self._link(lane, events)

    def _link(self, lane: Lane, events: Sequence[Assembled]) -> None:
        """Give the chain the results of a lane's rows."""
        # For each event, the lowest offsets of the blocks after it.
        waiting = _behind([one.token if isinstance(one, Block) else {} for one in events])
        for event, after in zip(events, waiting, strict=True):
            if isinstance(event, Block):
                if lane.reorgs:
                    self._collect(lane, event, after)
                else:
                    self._add([event], after)
            elif isinstance(event, Reorg):
                # The lane may have been closed, or given up, since it got these rows.
                self._lanes[lane.topic] = self._channels[lane.topic] = lane
                lane.reorgs.setdefault(event.hash, event)
                if len(lane.reorgs) > CHANNELS_MAX:
                    self._give_up(lane, "count", after)
            elif isinstance(event, ReorgComplete):
                self._complete(lane, event, after)
            else:
                self._tell_given_up(event)
        if lane.topic and self._channels.get(lane.topic) is not lane:
            self._abandon(lane)
        if len(self._channels) > CHANNELS_MAX:
            self._give_up(next(iter(self._channels.values())), "count")

    def _tell(self, events: Sequence[Linked], waiting: Places, before: Places) -> None:
        """Report events with their tokens. `before`: the lowest offsets of the chain's old and new
        blocks. The last of several updates may have made the chain forget blocks that the tokens of
        the others need.
        """
        left = sum(isinstance(event, ChainUpdate) for event in events)
        for event in events:
            if isinstance(event, ChainUpdate):
                left -= 1
                token = self._token(_lowest(waiting, before) if left else waiting)
                self._events.append(Step(event, token))
            else:
                self._events.append(event)

    def _tell_given_up(self, event: Dropped | Evicted) -> None:
        """Report a block that was given up, unless it is known: then only a copy is incomplete."""
        if isinstance(event, Dropped) or not self.knows(event.hash):
            self._events.append(event)

    def _before(self, blocks: Sequence[Block]) -> Places:
        floors = {source: self.chain.floor(source) for source in self._next}
        kept = {source: at for source, at in floors.items() if at is not None}
        return _lowest(kept, _floors(blocks))

    def _add(self, blocks: Sequence[Block], waiting: Places) -> None:
        """Pass whole blocks to the chain, or hold them back until it begins."""
        if not (self._holds and self.chain.begins):
            self._give(blocks, waiting)
            return
        for block in blocks:
            self._start.hold(block, self._now)

    def _give(self, blocks: Sequence[Block], waiting: Places) -> None:
        """Give the chain blocks, one after the other."""
        for block, after in zip(blocks, _behind([one.token for one in blocks]), strict=True):
            before = self._before([block])
            self._tell(self.chain.add(block), _lowest(waiting, after), before)

    def _collect(self, lane: Lane, block: Block, waiting: Places) -> None:
        """Keep a block until its channel is complete."""
        lane.collect(block)
        if len(lane.blocks) > self.chain.spare_max:
            self._give_up(lane, "blocks", waiting)
        elif lane.bytes > self.chain.spare_bytes_max:
            self._give_up(lane, "bytes", waiting)

    def _close(self, lane: Lane) -> tuple[list[Reorg], list[Block]]:
        """End a channel; return the reorgs that announced it, and its blocks."""
        self._channels.pop(lane.topic, None)
        self._lanes.pop(lane.topic, None)
        found = [*lane.reorgs.values()], lane.blocks
        lane.reorgs.clear()
        lane.keep([])
        return found

    def _complete(self, lane: Lane, end: ReorgComplete, waiting: Places) -> None:
        """Complete a reorg. Others of its topic stay open, with their blocks. The end of a reorg
        whose beginning was not seen closes none of them.
        """
        reorg = lane.reorgs.get(end.hash)
        if reorg is None and lane.reorgs:
            self._events.append(NotOpen(lane.topic, end.hash, end.number))
            return
        if len(lane.reorgs) > 1:
            del lane.reorgs[end.hash]
            blocks = _upon(end.hash, lane.blocks)
            own = {block.hash for block in blocks}
            lane.keep([block for block in lane.blocks if block.hash not in own])
        else:
            _, blocks = self._close(lane)
        if reorg is not None:
            of_channel = _lowest(_lowest(waiting, lane.begun), _floors(blocks))
            self._give(self._start.release(), of_channel)
            before = _lowest(lane.begun, self._before(blocks))
            events = self.chain.branch(reorg.hash, blocks, lane.begun, reorg.number)
            self._tell(events, waiting, before)

    def _give_up(self, lane: Lane, why: str, waiting: Places = NOWHERE) -> None:
        reorgs, blocks = self._close(lane)
        if reorgs:
            self._events.append(ChannelGivenUp(lane.topic, why))
        self._add(blocks, waiting)
        self._abandon(lane)

    def _abandon(self, lane: Lane) -> None:
        """Report incomplete blocks of a closed channel, unless they came by another way."""
        for event in lane.assembler.give_up("channel"):
            if isinstance(event, Dropped | Evicted):
                self._tell_given_up(event)


def _upon(ancestor: bytes, blocks: Sequence[Block]) -> list[Block]:
    """The blocks that descend from the ancestor."""
    children: dict[bytes, list[Block]] = {}
    for block in blocks:
        children.setdefault(block.parent, []).append(block)
    found = children.pop(ancestor, [])
    for block in found:
        found += children.pop(block.hash, [])
    return found


def _lowest(some: Places, others: Places) -> Places:
    """For each source, the lower of two offsets."""
    fresh = {at: n for at, n in others.items() if n < some.get(at, NUMBER_MAX)}
    return {**some, **fresh} if fresh else some


def _floors(blocks: Sequence[Block]) -> Places:
    """The lowest offsets of the blocks, by source."""
    return reduce(_lowest, (block.token for block in blocks), NOWHERE)


def _behind(tokens: Sequence[Places]) -> list[Places]:
    """For each of these, the lowest offsets of those after it."""
    found: list[Places] = [NOWHERE]
    for token in reversed(tokens[1:]):
        found.append(_lowest(found[-1], token))
    return found[: len(tokens)][::-1]
