"""Channels whose ancestor is unknown, late, or withdrawn; blocks that lie about their hashes."""

from cardinal.block import Block
from cardinal.chain import PAST_MAX, Chain
from cardinal.follower import TOPICS_MAX, ChainFollower, Row, Step
from cardinal.producer import Messages, Producer
from cardinal.schema import Schema
from cardinal.token import parse_token
from cardinal.update import ChainUpdate, Event, Unlinked
from tests.cardinal.stream import block, named
from tests.cardinal.test_follower_restarts import hash_of


def line(mark: str, first: int, last: int, parent: str) -> list[Block]:
    """Blocks on each other, called by a mark and their numbers, weighing these."""
    names = [parent, *(f"{mark}{number}" for number in range(first, last + 1))]
    return [block(name, int(name.strip("xy")), names[at]) for at, name in enumerate(names[1:])]


def grown(last: int, threshold: int = 5) -> Chain:
    chain = Chain(named("0"), threshold=threshold)
    for one in line("", 1, last, "0"):
        chain.add(one)
    return chain


def leaps(events: list[Event]) -> list[tuple[bytes, int]]:
    """Ancestors and new heads of the updates that go below what is kept."""
    return [
        (one.ancestor, one.added[-1].number)
        for one in events
        if isinstance(one, ChainUpdate) and one.beyond
    ]


def test_given_a_channel_on_a_block_that_waits_when_whole_then_it_waits_with_that() -> None:
    chain = grown(100)
    chain.add(block("x98", 98, "x97"))
    assert chain.branch(named("x98"), [block("x99", 99, "x98", 500)], number=98) == []
    (update,) = chain.add(block("x97", 97, "96"))
    assert isinstance(update, ChainUpdate)
    assert [one.hash for one in update.added] == [named("x97"), named("x98"), named("x99")]


def test_given_a_channel_that_waits_when_another_goes_below_it_then_it_stays_out() -> None:
    chain = grown(100)
    assert chain.branch(named("50"), line("x", 51, 99, "50"), number=50) == []
    events = chain.branch(named("40"), line("y", 41, 101, "40"), number=40)
    assert leaps(events) == [(named("40"), 101)]
    assert leaps(chain.add(block("x102", 102, "x99"))) == []
    assert chain.head == named("y101")


def test_given_a_copy_of_a_channel_when_its_ancestor_was_taken_back_then_it_is_given_up() -> None:
    chain = grown(100)
    first, second = line("x", 51, 101, "50"), line("y", 41, 102, "40")
    assert leaps(chain.branch(named("50"), first, number=50)) == [(named("50"), 101)]
    assert leaps(chain.branch(named("40"), second, number=40)) == [(named("40"), 102)]
    given_up = chain.branch(named("50"), first, number=50)
    assert {one.hash for one in given_up if isinstance(one, Unlinked)} == {
        one.hash for one in first
    }
    assert leaps(chain.add(block("x103", 103, "x101"))) == []


def test_given_blocks_that_came_as_others_when_their_channel_does_then_it_is_one_branch() -> None:
    chain = grown(100)
    for one in line("x", 96, 100, "x95"):
        chain.add(one)
    assert leaps(chain.branch(named("50"), line("x", 51, 100, "50"), number=50)) == []
    (update,) = chain.add(block("x102", 102, "x100"))
    assert leaps([update]) == [(named("50"), 102)]
    assert isinstance(update, ChainUpdate)
    assert len(update.added) == 51


def test_given_a_restart_when_the_same_comes_again_then_it_is_the_same_update() -> None:
    chain = Chain(named("100"), number=100, threshold=5)
    for one in [*line("", 95, 99, "94"), *line("x", 96, 100, "x95")]:
        assert chain.add(one) == []
    assert chain.branch(named("50"), line("x", 51, 100, "50"), number=50) == []
    assert chain.add(block("100", 100, "99")) == []
    assert leaps(chain.add(block("x102", 102, "x100"))) == [(named("50"), 102)]


def test_given_a_start_when_a_short_channel_comes_before_its_block_then_it_is_not_too_old() -> None:
    chain = Chain(named("9"), number=9, threshold=0)
    branch = line("x", 6, 8, "5")
    branch[-1].weight = 10
    assert chain.branch(named("5"), branch, number=5) == []
    assert leaps(chain.add(block("9", 9, "8"))) == [(named("5"), 8)]


def test_given_a_block_of_a_channel_when_another_of_its_hash_waits_then_that_one_goes() -> None:
    chain = grown(10)
    chain.add(block("x7", 8, "nowhere"))
    chain.add(block("2", 9, "elsewhere"))
    events = chain.branch(named("2"), line("x", 7, 11, "2"), number=2)
    assert leaps(events) == [(named("2"), 11)]
    assert {one.hash for one in events if isinstance(one, Unlinked)} == {named("x7"), named("2")}


def test_given_a_channel_in_a_ring_when_it_comes_then_it_is_given_up() -> None:
    chain = grown(10)
    chain.add(block("2", 6, "x9"))
    (told,) = chain.branch(named("2"), [block("x9", 20, "2", 50)], number=2)
    assert isinstance(told, Unlinked)
    assert chain.head == named("10")


def test_given_a_hash_that_comes_with_another_number_when_time_passes_then_all_is_forgotten() -> (
    None
):
    chain = grown(10)
    for one in (block("h", 9, "p"), block("p", 9, "nope"), block("h", 1 << 62, "q")):
        chain.add(one)
    for one in line("", 11, 300, "10"):
        chain.add(one)
    assert len(chain.retained) == 7
    assert chain.head == named("300")


def test_given_another_block_for_the_bottom_when_it_comes_then_it_is_given_up() -> None:
    chain = grown(10)
    (told,) = chain.add(block("4", 5, "elsewhere"))
    assert isinstance(told, Unlinked)
    assert [one.number for one in chain.retained] == [5, 6, 7, 8, 9, 10]


def test_given_a_long_chain_when_it_goes_on_then_only_so_much_of_its_past_is_kept() -> None:
    chain = grown(PAST_MAX + 100)
    assert len(chain._past) == PAST_MAX


def test_given_a_chain_that_goes_on_when_many_blocks_wait_then_it_does_not_stand_still() -> None:
    chain = grown(10)
    for one in line("x", 12, 81, "x11"):
        chain.add(one)
    assert all(isinstance(chain.add(one)[0], ChainUpdate) for one in line("", 11, 14, "10"))


def test_given_a_source_that_rewinds_when_blocks_come_again_then_the_floor_is_below_them() -> None:
    chain = Chain(named("0"), threshold=3)
    for one in line("", 1, 7, "0"):
        one.token = {"s": 2 * one.number}
        chain.add(one)
    chain.branch(named("old"), [block("x6", 6, "old", 1)], {"s": 13})
    chain.rewind("s", 9)
    assert chain.floor("s") == 8
    for one in line("", 8, 11, "7"):
        one.token = {"s": 30}
        chain.add(one)
    assert chain.floor("s") == 30


SCHEMA = Schema({"a/": "accounts"}, "blocks")


def rows_of(sent: list[Messages]) -> list[Row]:
    rows = [
        (topic, key, value)
        for messages in sent
        for topic, some in messages.items()
        for key, value in some
    ]
    return [(*row, number) for number, row in enumerate(rows, 1)]


def steps_of(follower: ChainFollower, rows: list[Row]) -> list[Step]:
    return [
        event for row in rows for event in follower.take([row], "s", 0.0) if isinstance(event, Step)
    ]


def test_given_a_channel_on_the_head_when_stopped_in_it_then_the_rest_comes_again() -> None:
    producer = Producer(SCHEMA)
    channel = producer.reorg(1, hash_of(1), 1, hash_of(201))
    first = producer.block(1, hash_of(1), hash_of(0), 1)
    made = [channel.block(at, hash_of(at), hash_of(at - 1), at) for at in range(2, 202)]
    last = producer.block(202, hash_of(202), hash_of(201), 202)
    rows = rows_of([first, channel.begin(), *made, first, channel.complete(), last])
    steps = steps_of(ChainFollower(start=hash_of(0), number=0), rows)
    assert len(steps) == 202
    for at in (1, 2, 100, 199, 200):
        head = steps[at].update.added[-1]
        again = ChainFollower(start=head.hash, number=head.number)
        rest = rows[parse_token(steps[at].token)["s"] - 1 :]
        assert len(steps_of(again, rest)) == 201 - at


def test_given_a_channel_that_waits_when_a_token_is_made_then_it_reaches_back_to_its_begin() -> (
    None
):
    producer = Producer(SCHEMA)
    blocks = [producer.block(at, hash_of(at), hash_of(at - 1), at) for at in range(1, 101)]
    names = {50: hash_of(50)} | {at: hash_of(1000 + at) for at in range(51, 99)}
    channel = producer.reorg(50, names[50], 60, names[98])
    made = [channel.block(at, names[at], names[at - 1], at) for at in range(51, 99)]
    rows = rows_of([*blocks[:90], channel.begin(), *blocks[90:], *made, channel.complete()])
    follower = ChainFollower(start=hash_of(0), number=0, threshold=5)
    assert steps_of(follower, rows)[-1].update.added[0].number == 100, "the channel is lighter"
    assert len(follower.chain.retained) == 6 + len(made)
    assert parse_token(follower.token("s")) == {"s": 91}


def test_given_an_ancestor_that_is_late_when_its_channel_is_whole_then_nothing_is_taken_back() -> (
    None
):
    producer = Producer(SCHEMA)
    blocks = [
        producer.block(at, hash_of(at), hash_of(at - 1), at, {"a/1": b"x"}) for at in range(1, 15)
    ]
    late = {"accounts": blocks[10].pop("accounts")}
    channel = producer.reorg(11, hash_of(11), 14, hash_of(23))
    made = [
        channel.block(12, hash_of(22), hash_of(11), 12, {"a/1": b"y"}),
        channel.block(13, hash_of(23), hash_of(22), 99, {"a/1": b"y"}),
    ]
    rows = rows_of([*blocks, channel.begin(), *made, channel.complete(), late])
    steps = steps_of(ChainFollower(start=hash_of(0), number=0), rows)
    assert not any(step.update.beyond for step in steps)
    assert [[one.number for one in step.update.added] for step in steps[-2:]] == [
        [11, 12, 13, 14],
        [12, 13],
    ]


def test_given_endless_topics_when_all_are_tracked_then_few_are_remembered() -> None:
    follower = ChainFollower()
    for at in range(TOPICS_MAX + 100):
        follower.take([(f"t{at}", b"\xff", b"", at)], "s", 0.0)
    assert len(follower._lanes) == TOPICS_MAX


def test_given_blocks_of_a_channel_when_the_source_rewinds_then_their_tokens_do() -> None:
    producer = Producer(SCHEMA)
    channel = producer.reorg(1, hash_of(1), 1, hash_of(9))
    rows = rows_of([channel.begin(), channel.block(2, hash_of(9), hash_of(1), 2)])
    follower = ChainFollower()
    follower.take(rows, "s", 0.0)
    assert [one.token for one in follower.retained] == [{"s": 2}]
    follower.rewind("s", 1)
    assert [one.token for one in follower.retained] == [{"s": 1}]
