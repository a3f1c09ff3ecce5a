"""Blocks whose messages come from several partitions, late and in any order: no silent losses.

Chains are random: with sub-batches that come long after their blocks, forks, and rows of several
sources that overtake each other. A consumer is stopped after any step, and resumes from the token.
In the end each block is applied, or was reported, or is known to be waited for.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from cardinal.assembler import Evicted
from cardinal.follower import ChainFollower, Event, Row, Step
from cardinal.messages import NO_ID
from cardinal.producer import Producer
from cardinal.schema import Schema
from cardinal.token import BadToken, parse_token
from cardinal.update import ChainUpdate, Unlinked
from tests.support.depth import depth

SCHEMA = Schema({"a/": "accounts", "b/": "bodies"}, "blocks")
ID = b"\x07" * 32
Sent = tuple[str, Row]  # from which source


def hash_of(count: int) -> bytes:
    return (count + 1).to_bytes(4, "big") * 8


@dataclass
class Story:
    """What several partitions give, and the chain that is in it."""

    random: Random
    rows: list[Sent] = field(default_factory=list)
    chain: list[bytes] = field(default_factory=list)
    hashes: set[bytes] = field(default_factory=set)  # of all blocks


def story(seed: int, partitions: int, late: int) -> Story:
    """A message comes up to `late` places after the one that was sent behind it."""
    made = Story(Random(seed))
    random, producer = made.random, Producer(SCHEMA)
    first = random.choice([0, 0, 7])
    parent = hash_of(99) if first else bytes(32)
    sent: list[Any] = []
    for count in range(random.randint(4, 14)):
        number, hash = first + count, hash_of(count)
        for fork in range(random.choice([1, 1, 1, 2])):
            own = hash_of(100 + count) if fork else hash
            updates = {f"a/{at}": b"x" for at in range(random.randint(0, 2))} | {"b/1": b"y"}
            weight = 10 * number + (1 if fork else 5)
            batches = {"s/": ID} if random.random() < 0.7 else {}
            topics = [producer.block(number, own, parent, weight, updates, (), batches)]
            if batches:
                topics.append(producer.sub_batch(own, ID, (), {"s/1": b"z"}))
            made.hashes.add(own)
            for at, messages in enumerate(topics):
                delay = random.randint(0, 4 * late) if at else 0
                for topic, some in messages.items():
                    sent += [(len(sent) + delay, topic, key, value) for key, value in some]
        made.chain.append(hash)
        parent = hash
    sent = [(place + random.random() * late, *rest) for place, *rest in sent]
    offsets = Counter[str]()
    for _, topic, key, value in sorted(sent, key=lambda one: one[0]):
        source = f"p:{random.randrange(partitions)}"
        offsets[source] += 1
        made.rows.append((source, (topic, key, value, offsets[source])))
    return made


class Consumer:
    """An application that takes back what it is told to, and forgets nothing that was reported."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.path: list[bytes] = []
        self.numbers: dict[bytes, int] = {}
        self.reported: set[bytes] = set()
        self.token = ""

    def follower(self) -> ChainFollower:
        head = self.path[-1] if self.path else None
        number = None if head is None else self.numbers[head]
        made = ChainFollower(start=head, number=number, threshold=self.threshold)
        self.places = made.resume(self.token)
        return made

    def take(self, events: list[Event], steps: int = -1) -> int:
        """Apply as many steps as it lives; what comes later it does not see."""
        for event in events:
            if steps == 0:
                break
            if isinstance(event, Step):
                self.apply(event.update)
                self.token = event.token
                steps -= 1
            elif isinstance(event, Evicted | Unlinked):
                self.reported.add(event.hash)
        return steps

    def apply(self, update: ChainUpdate) -> None:
        for block in reversed(update.removed):
            assert self.path.pop() == block.hash
        assert not self.path or self.path[-1] == update.ancestor
        for block in update.added:
            assert block.hash not in self.path
            self.path.append(block.hash)
            self.numbers[block.hash] = block.number

    def read(self, made: Story, steps: int, size: int, seconds: float) -> ChainFollower:
        """Live for so many steps, and read what the token does not say was used."""
        follower, now = self.follower(), 0.0
        rows = [(s, row) for s, row in made.rows if row[3] >= self.places.get(s, 0)]
        for at in range(0, len(rows), size):
            now += seconds
            for source in dict.fromkeys(s for s, _ in rows[at : at + size]):
                mine = [row for s, row in rows[at : at + size] if s == source]
                steps = self.take(follower.take(mine, source, now), steps)
                if steps == 0:
                    return follower
        self.take(follower.flush(), steps)
        return follower


@pytest.mark.parametrize("threshold", [0, 1, 3, 128])
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_given_any_story_of_partitions_when_stopped_after_any_step_then_no_block_is_lost_silently(
    partitions: int, threshold: int
) -> None:
    for seed in range(depth(48, 120)):
        made = story(seed, partitions, late=(seed % 4) * 5)
        random = Random(seed)
        consumer = Consumer(threshold)
        for _ in range(random.randint(0, 4)):
            consumer.read(made, random.randint(1, 4), random.randint(1, 30), random.choice([0, 3]))
        follower = consumer.read(made, -1, random.randint(1, 30), random.choice([0, 3]))
        if threshold == 128:
            assert consumer.path == made.chain, seed
            continue
        known = {block.hash for block in follower.retained} | set(follower.assembler.pending)
        lost = set(made.chain) - {*consumer.path} - consumer.reported - known
        assert not lost, (seed, lost)


def test_given_partitions_when_a_step_comes_then_its_token_has_the_place_of_each() -> None:
    rows = [
        ("p:0", ("blocks", *one, 5 + at))
        for at, one in enumerate(
            Producer(SCHEMA).block(1, hash_of(1), NO_ID, 1, {"a/1": b"x"})["blocks"]
        )
    ]
    producer = Producer(SCHEMA)
    messages = producer.block(1, hash_of(1), NO_ID, 1, {"a/1": b"x"})
    other = producer.block(2, hash_of(2), hash_of(1), 2, {"a/1": b"x"})
    follower = ChainFollower(threshold=0)
    assert follower.take([row for _, row in rows], "p:0", 0.0) == []
    follower.take([("accounts", *other["accounts"][0], 70)], "p:1", 0.0)
    (step,) = follower.take([("accounts", *messages["accounts"][0], 8)], "p:2", 0.0)
    assert isinstance(step, Step)
    assert parse_token(step.token) == {"p:0": 5, "p:1": 70, "p:2": 8}
    (step,) = follower.take([("blocks", *other["blocks"][0], 6)], "p:0", 0.0)
    assert isinstance(step, Step)
    assert parse_token(step.token) == {"p:0": 6, "p:1": 70, "p:2": 9}, "what is kept, or the next"


def test_given_a_token_when_one_source_is_silent_after_it_then_its_place_is_kept() -> None:
    messages = Producer(SCHEMA).block(3, hash_of(3), hash_of(2), 3, {})
    follower = ChainFollower(start=hash_of(2), number=2)
    assert follower.resume("p:0=5;p:1=70") == {"p:0": 5, "p:1": 70}
    (step,) = follower.take([("blocks", *messages["blocks"][0], 6)], "p:0", 0.0)
    assert isinstance(step, Step)
    assert parse_token(step.token) == {"p:0": 6, "p:1": 70}
    follower.forget("p:1")
    assert parse_token(follower.token()) == {"p:0": 6}


@pytest.mark.parametrize("source", ["", "a b", "a=b", "a;b"])
def test_given_a_source_that_no_token_can_name_when_rows_come_then_it_is_refused(
    source: str,
) -> None:
    follower = ChainFollower()
    assert follower.take([], source, 0.0) == []
    with pytest.raises(BadToken, match="is not a valid name of a stream"):
        follower.take([("blocks", b"", b"", 1)], source, 0.0)
