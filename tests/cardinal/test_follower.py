"""From rows to steps: tokens that lose nothing, channels, topics that are not tracked."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardinal.assembler import Dropped, Evicted
from cardinal.errors import NotOnChannel
from cardinal.follower import ChainFollower, ChannelGivenUp, Event, NotOpen, Row, Step
from cardinal.producer import Messages, Producer
from cardinal.token import parse_token
from tests.cardinal.chains import GENESIS, SCHEMA, Made, branch, messages_of, rows_of, state_of
from tests.support.depth import examples

STREAM = "1141c2c3a6b8558d"
BASE = branch(GENESIS, "x", 3)
LEFT, RIGHT = branch(BASE[-1], "l", 2), branch(BASE[-1], "r", 4)


def sent(blocks: Sequence[Made]) -> list[Messages]:
    producer = Producer(SCHEMA)
    return [messages for block in blocks for messages in messages_of(producer, block)]


class Application:
    """Applies steps, and remembers what it would have stored."""

    def __init__(self) -> None:
        self.chain: list[bytes] = []
        self.states: list[dict[str, bytes]] = [{}]
        self.token = ""

    def apply(self, events: Sequence[Event]) -> None:
        for event in events:
            assert isinstance(event, Step), event
            for block in reversed(event.update.removed):
                assert self.chain.pop() == block.hash
                self.states.pop()
            for block in event.update.added:
                assert block.hash not in self.chain, "applied twice"
                assert not self.chain or self.chain[-1] == block.parent
                kept = {k: v for k, v in self.states[-1].items() if k not in block.deletes}
                self.chain.append(block.hash)
                self.states.append(kept | block.updates)
            self.token = event.token


def test_given_a_chain_with_a_fork_when_followed_then_the_state_is_that_of_the_heavier() -> None:
    application = Application()
    rows = rows_of(sent([*BASE, *LEFT, *RIGHT]))
    application.apply(ChainFollower().take(rows, STREAM, 0.0))
    assert application.chain == [block.hash for block in [*BASE, *RIGHT]]
    assert application.states[-1] == state_of([*BASE, *RIGHT])
    assert parse_token(application.token) == {STREAM: 1}, "all blocks are kept for a reorg"


@pytest.mark.parametrize("missing", [0, 1], ids=["nothing pending", "a block pending"])
def test_given_numbers_that_were_taken_back_then_tokens_reach_back_to_what_comes_again(
    missing: int,
) -> None:
    follower, application = ChainFollower(threshold=0), Application()
    rows = rows_of(sent([*BASE, *RIGHT]))
    kept, gone = len(rows_of(sent(BASE[:1]))), len(rows_of(sent(BASE[:3]))) - missing
    application.apply(follower.take(rows[:gone], STREAM, 0.0))
    follower.rewind(STREAM, kept + 1)  # the journal ends behind the first block
    follower.rewind("another", 1)
    for row in rows[kept:]:
        application.apply(follower.take([row], STREAM, 0.0))
        assert parse_token(follower.token(STREAM))[STREAM] <= row[3] + 1
    assert application.chain == [block.hash for block in [*BASE, *RIGHT]]


@settings(max_examples=examples(60))
@given(st.data())
def test_given_any_order_and_a_restart_after_any_step_when_followed_then_nothing_is_lost_or_twice(
    data: st.DataObject,
) -> None:
    rows = rows_of(sent([*BASE, *LEFT, *RIGHT]))
    order = data.draw(st.permutations(rows[len(rows_of(sent(BASE[:1]))) :]))
    order = rows[: len(rows) - len(order)] + order  # the first block is where all begins
    numbered = [(*row[:3], number) for number, row in enumerate(order + order[::3], 1)]
    application, first, follower = Application(), 1, ChainFollower()
    for _ in range(data.draw(st.integers(0, 3)) + 1):
        steps_left = data.draw(st.integers(1, 3))
        for piece in cut(numbered[first - 1 :], data.draw(st.integers(1, 50))):
            for event in follower.take(piece, STREAM, 0.0):
                if steps_left:
                    application.apply([event])
                    steps_left -= 1
            if not steps_left:
                break  # killed: what the follower knew is gone
        first = parse_token(application.token)[STREAM]
        follower = ChainFollower(start=application.chain[-1], number=len(application.chain))
    for piece in cut(numbered[first - 1 :], 40):
        application.apply(follower.take(piece, STREAM, 0.0))
    assert application.chain == [block.hash for block in [*BASE, *RIGHT]]
    assert application.states[-1] == state_of([*BASE, *RIGHT])


def cut(rows: list[Row], size: int) -> list[list[Row]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def test_given_only_some_prefixes_when_followed_then_other_topics_are_passed_by() -> None:
    rows = rows_of(sent(BASE))
    follower = ChainFollower(SCHEMA.track("b/[0-9]+/t/"))
    events = follower.take(rows, STREAM, 0.0)
    steps = [event for event in events if isinstance(event, Step)]
    keys = {key for step in steps for block in step.update.added for key in block.updates}
    assert keys == {f"b/{number}/t/{at}" for number in (1, 2, 3) for at in range(5)}
    assert events == steps
    assert "accounts" in {row[0] for row in rows}


def reorganised() -> tuple[list[Row], list[Row], list[Row]]:
    """The ordinary blocks, a reorg's channel, and a block behind it."""
    deep = branch(BASE[0], "d", 5)
    channel = Producer(SCHEMA).reorg(1, BASE[0].hash, LEFT[-1].weight, deep[-1].hash)
    on_channel = [channel.begin()]
    for block in deep:
        on_channel += messages_of(channel, block)
    on_channel.append(channel.complete())
    before = rows_of(sent([*BASE, *LEFT]))
    between = rows_of(on_channel, len(before) + 1)
    after = rows_of(sent(branch(deep[-1], "e", 1)), len(before) + len(between) + 1)
    return before, between, after


def test_given_a_reorg_beyond_the_threshold_when_its_channel_comes_then_it_is_followed() -> None:
    before, between, after = reorganised()
    application = Application()
    follower = ChainFollower(threshold=10)
    application.apply(follower.take(before + between + after, STREAM, 0.0))
    deep = branch(BASE[0], "d", 5)
    final = [BASE[0], *deep, *branch(deep[-1], "e", 1)]
    assert application.chain == [block.hash for block in final]
    assert application.states[-1] == state_of(final)


def test_given_an_open_channel_when_a_token_is_made_then_it_reaches_back_to_its_begin() -> None:
    before, between, _ = reorganised()
    follower = ChainFollower(threshold=0, start=BASE[-1].hash, number=3)
    follower.take(before, STREAM, 0.0)
    assert follower.token(STREAM) != f"{STREAM}={between[0][3]}"
    tokens = [
        event.token
        for row in between
        for event in follower.take([row], STREAM, 0.0)
        if isinstance(event, Step)
    ]
    assert tokens
    assert all(parse_token(token)[STREAM] <= between[0][3] for token in tokens[:-1])


def test_given_a_channel_that_is_never_completed_when_time_passes_then_it_is_given_up() -> None:
    before, between, _ = reorganised()
    follower = ChainFollower(age_max=10.0)
    follower.take(before + between[:-1], STREAM, 0.0)
    assert follower.channels == [between[0][0]]
    meanwhile = rows_of(sent(branch(LEFT[-1], "w", 1)), 1000)
    (step,) = follower.take(meanwhile, STREAM, 5.0)
    assert isinstance(step, Step), "nobody waits for a channel"
    assert parse_token(step.token)[STREAM] <= between[0][3]
    brought = [block.hash for block in branch(BASE[0], "d", 5)]
    assert not {*brought} & {block.hash for block in follower.chain.retained}
    assert follower.take([], STREAM, 10.1) == [ChannelGivenUp(between[0][0], "age")]
    assert [block.hash for block in follower.chain.retained[-5:]] == brought, "as any other"
    assert (follower.channels, follower.retained) == ([], follower.chain.retained)
    assert follower.take([], STREAM, 30.0) == []


@pytest.mark.parametrize(("limit", "most"), [("blocks", 3), ("bytes", 1000)])
def test_given_a_channel_that_is_too_long_when_it_comes_then_it_is_given_up(
    limit: str, most: int
) -> None:
    before, between, _ = reorganised()
    follower = ChainFollower()
    setattr(follower.chain, {"blocks": "spare_max", "bytes": "spare_bytes_max"}[limit], most)
    events = follower.take(before + between, STREAM, 0.0)
    assert ChannelGivenUp(between[0][0], limit) in events
    assert (follower.channels, follower.retained) == ([], follower.chain.retained)


@pytest.mark.parametrize("place", [0, 1, 3, 5], ids=lambda place: f"cut at {place}")
def test_given_a_channel_that_is_opened_again_when_cut_anywhere_then_it_is_closed_at_its_end(
    place: int,
) -> None:
    before, between, after = reorganised()
    rows = before + between + between + after
    rows = [(*row[:3], number) for number, row in enumerate(rows, 1)]
    cut_at = len(before) + len(between) + place
    application, follower = Application(), ChainFollower()
    application.apply(follower.take(rows[:cut_at], STREAM, 0.0))
    application.apply(follower.take(rows[cut_at:], STREAM, 0.0))
    deep = branch(BASE[0], "d", 5)
    final = [BASE[0], *deep, *branch(deep[-1], "e", 1)]
    assert application.chain == [block.hash for block in final]


def test_given_a_channel_that_lacks_a_message_when_completed_then_the_block_is_reported() -> None:
    before, between, _ = reorganised()
    lost = next(at for at, row in enumerate(between) if row[1][0] == 3)
    events = ChainFollower().take(before + between[:lost] + between[lost + 1 :], STREAM, 0.0)
    evicted = [event for event in events if isinstance(event, Evicted)]
    assert [(event.hash, event.why) for event in evicted] == [
        (branch(BASE[0], "d", 5)[0].hash, "channel")
    ]
    assert sum(evicted[0].missing.prefixes.values()) == 1


def test_given_too_many_channels_when_opened_then_the_oldest_is_given_up() -> None:
    follower, events = ChainFollower(), []
    for at in range(17):
        head = branch(GENESIS, f"c{at}", 1)[0]
        channel = Producer(SCHEMA).reorg(0, GENESIS.hash, 0, head.hash)
        events += follower.take(rows_of([channel.begin()], at + 1), STREAM, 0.0)
    assert [(type(event), event.why) for event in events if isinstance(event, ChannelGivenUp)] == [
        (ChannelGivenUp, "count")
    ]


def test_given_a_channel_without_its_begin_when_followed_then_its_blocks_are_ordinary() -> None:
    before, between, _ = reorganised()
    application = Application()
    application.apply(ChainFollower().take(before + between[1:], STREAM, 0.0))
    assert application.chain == [block.hash for block in [BASE[0], *branch(BASE[0], "d", 5)]]


def test_given_reorg_messages_on_an_ordinary_topic_when_followed_then_they_are_reported() -> None:
    before, between, _ = reorganised()
    misplaced = [("blocks", *between[0][1:]), ("blocks", *between[-1][1:])]
    application = Application()
    events = ChainFollower().take(misplaced + before, STREAM, 0.0)
    told = [event for event in events if isinstance(event, Dropped)]
    assert [(type(one.error), one.key, one.source, one.offset) for one in told] == [
        (NotOnChannel, row[1], STREAM, row[3]) for row in misplaced
    ]
    assert str(told[0].error) == (
        "a Reorg of block 1 on an ordinary topic, where it changes nothing: it belongs on a topic"
        " reorg.*"
    )
    application.apply([event for event in events if event not in told])
    assert application.chain == [block.hash for block in [*BASE, *LEFT]]


@pytest.mark.parametrize("ends", ["first", "second"])
@pytest.mark.parametrize("threshold", [0, 128])
def test_given_two_reorgs_on_one_topic_when_one_is_complete_then_it_is_followed_whole(
    ends: str, threshold: int
) -> None:
    """A producer dies in a reorg, and another one takes the same topic for a deeper one."""
    before, between, _ = reorganised()
    other = branch(BASE[1], "o", 1)
    topic, wanted = between[0][0], branch(BASE[0], "d", 5)
    channel = Producer(SCHEMA).reorg(2, BASE[1].hash, 0, other[0].hash)
    begun = [channel.begin(), *messages_of(channel, other[0])]
    foreign = [(topic, *row[1:]) for row in rows_of(begun)]
    opened = [*foreign, *between] if ends == "second" else [between[0], *foreign, *between[1:]]
    rows = [(*row[:3], number) for number, row in enumerate([*before, *opened], 1)]
    application, follower = Application(), ChainFollower(threshold=threshold)
    for at, row in enumerate(rows):
        for event in follower.take([row], STREAM, 0.0):
            assert isinstance(event, Step), event
            assert at < len(before) or at == len(rows) - 1, "nothing of a branch before its end"
            if event.update.beyond:
                del application.chain[1:], application.states[2:]
                event.update.removed.clear()
            application.apply([event])
    assert application.chain == [BASE[0].hash, *(block.hash for block in wanted)]
    assert follower.channels == [topic], "the other one is open still"
    assert parse_token(application.token)[STREAM] <= len(before) + 2
    gone = follower.take([], STREAM, 601.0)
    assert [event for event in gone if isinstance(event, ChannelGivenUp)] == [
        ChannelGivenUp(topic, "age")
    ]


def test_given_the_end_of_another_reorg_on_an_open_channel_then_it_is_reported_and_ignored() -> (
    None
):
    before, between, after = reorganised()
    stray = Producer(SCHEMA).reorg(2, BASE[1].hash, 0, BASE[2].hash)._end
    rows = [*before, *between[:-3], (between[0][0], *stray, 0), *between[-3:], *after]
    rows = [(*row[:3], number) for number, row in enumerate(rows, 1)]
    application = Application()
    events = ChainFollower().take(rows, STREAM, 0.0)
    told = [event for event in events if not isinstance(event, Step)]
    assert told == [NotOpen(between[0][0], BASE[1].hash, 2)]
    assert "whose beginning was not seen" in str(told[0])
    application.apply([event for event in events if event not in told])
    deep = branch(BASE[0], "d", 5)
    final = [BASE[0], *deep, *branch(deep[-1], "e", 1)]
    assert application.chain == [block.hash for block in final]


def test_given_a_block_that_is_never_whole_when_time_passes_then_it_is_reported() -> None:
    follower = ChainFollower(age_max=10.0)
    rows = rows_of(sent(BASE[:1]))
    assert follower.take(rows[:-1], STREAM, 0.0) == []
    assert follower.token(STREAM) == f"{STREAM}=1"
    (event,) = follower.take([], STREAM, 10.1)
    assert isinstance(event, Evicted)
    assert follower.token(STREAM) == f"{STREAM}={rows[-2][3] + 1}"


def test_given_a_message_of_an_applied_block_when_it_comes_late_then_nothing_is_reported() -> None:
    follower = ChainFollower(age_max=10.0, remember=1, threshold=1)
    rows = rows_of(sent(BASE))
    assert len(follower.take(rows, STREAM, 0.0)) == len(BASE)
    (*_, last) = (row for row in rows if row[1][1:33] == BASE[0].hash)
    assert follower.take([(*last[:3], rows[-1][3] + 1)], STREAM, 0.0) == []
    assert [block.hash for block in follower.assembler.pending.values()] == [BASE[0].hash]
    assert follower.take([], STREAM, 10.1) == []
    assert not follower.assembler.pending


@pytest.mark.parametrize("first", [5000, 1])
def test_given_a_stream_read_from_its_middle_when_a_token_is_made_then_it_is_not_before(
    first: int,
) -> None:
    follower = ChainFollower(SCHEMA.track("nothing"))
    follower.take([("accounts", b"\x03" + bytes(32) + b"a", b"", first)], STREAM, 0.0)
    assert follower.token(STREAM) == f"{STREAM}={first}"
