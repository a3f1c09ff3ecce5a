"""A consumer that is stopped after any update continues as if it had not been stopped.

Chains are random: blocks, branches within the threshold, reorg channels of any depth, old messages
sent again, and ordinary blocks between those of a channel.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from cardinal.follower import ChainFollower, Row, Step
from cardinal.producer import Messages, Producer, ReorgChannel
from cardinal.schema import Schema
from cardinal.token import parse_token
from cardinal.update import ChainUpdate
from tests.support.depth import depth

SCHEMA = Schema({"a/": "accounts"}, "blocks")
SEEDS = depth(6, 60)
Place = tuple[int, bytes, int]  # number, hash, weight


def hash_of(count: int) -> bytes:
    return count.to_bytes(4, "big") + bytes(28)  # the names of channels have its beginning


@dataclass
class Story:
    """What producers send, and the chain that it must lead to."""

    random: Random
    threshold: int
    rows: list[Row] = field(default_factory=list)
    chain: list[Place] = field(default_factory=lambda: [(0, hash_of(0), 0)])
    blocks: int = 0
    heaviest: int = 0  # of all blocks, whosever they are
    lowest: int = 0  # of what consumers surely keep
    producer: Producer = field(default_factory=lambda: Producer(SCHEMA))

    def put(self, messages: Messages) -> None:
        for topic, some in messages.items():
            self.rows += [
                (topic, key, value, at) for at, (key, value) in enumerate(some, len(self.rows) + 1)
            ]

    def block(self, on: Place, producer: Producer | ReorgChannel, least: int = 0) -> Place:
        self.blocks += 1
        number, parent, weight = on
        made = (number + 1, hash_of(self.blocks), max(weight + 1, least))
        self.heaviest = max(self.heaviest, made[2])
        self.put(producer.block(made[0], made[1], parent, made[2], {"a/1": b"x"}))
        return made

    def extend(self, count: int) -> None:
        for _ in range(count):
            self.chain.append(self.block(self.chain[-1], self.producer, self.heaviest + 1))

    def again(self) -> None:
        """Messages come a second time, of which some may be long forgotten."""
        at = self.random.randrange(len(self.rows))
        for topic, key, value, _ in self.rows[at : at + self.random.randint(1, 60)]:
            self.rows.append((topic, key, value, len(self.rows) + 1))

    def fork(self) -> None:
        keep = self.random.randint(1, len(self.chain))
        if keep < len(self.chain) and self.chain[keep - 1][0] >= self.lowest:
            self._branch(keep, self.producer, self.random.randint(0, 3))

    def channel(self) -> None:
        keep = self.random.randint(1, len(self.chain))
        if keep == len(self.chain):
            return
        more, between = self.random.randint(0, 3), self.random.choice([0, 0, 1, 3])
        last = self.blocks + between + 1 + more
        number, ancestor, _ = self.chain[keep - 1]
        channel = self.producer.reorg(number, ancestor, self.chain[-1][2], hash_of(last))
        self.put(channel.begin())
        if self.random.random() < 0.3:
            self.again()
        self.extend(between)
        tip = self.chain[-1]
        self._branch(keep, channel, more)
        if number + 1 < self.lowest and tip[0] + 2 - self.threshold < self.chain[-1][0]:
            for _ in range(self.random.choice([0, 2])):
                tip = self.block(tip, self.producer)  # of one who does not know of the reorg yet
        self.put(channel.complete())
        self.lowest = max(self.lowest, number)  # who did not know the ancestor has nothing below

    def _branch(self, keep: int, producer: Producer | ReorgChannel, more: int) -> None:
        """Replace what is behind so many blocks; the last new one is heavier than all of it."""
        heaviest = self.heaviest
        branch = [self.chain[keep - 1]]
        for left in range(more, -1, -1):
            branch.append(self.block(branch[-1], producer, 0 if left else heaviest + 1))
        self.chain[keep:] = branch[1:]


def story(seed: int, threshold: int) -> Story:
    made = Story(Random(seed), threshold)
    made.extend(3)
    for _ in range(made.random.randint(3, 10)):
        made.lowest = max(made.lowest, made.chain[-1][0] - threshold)
        made.extend(made.random.choice([0, 1, 2, 4, 6]))
        made.lowest = max(made.lowest, made.chain[-1][0] - threshold)
        made.random.choice([made.fork, made.channel, made.again])()
    made.extend(1)
    return made


def follow(follower: ChainFollower, rows: list[Row]) -> list[Step]:
    return [
        event for row in rows for event in follower.take([row], "s", 0.0) if isinstance(event, Step)
    ]


def changes(steps: list[Step]) -> list[list[bytes]]:
    return [[block.hash for block in step.update.added] for step in steps]


def apply(path: list[bytes], update: ChainUpdate) -> None:
    """As an application does that can take back all that it has applied."""
    for block in reversed(update.removed):
        if path:
            assert path.pop() == block.hash
    while update.beyond and path and path[-1] != update.ancestor:
        path.pop()
    assert not path or path[-1] == update.ancestor
    path += [block.hash for block in update.added]


@pytest.mark.parametrize("threshold", [0, 1, 2, 3, 5, 128])
def test_given_any_story_when_stopped_after_any_step_then_it_goes_on_as_if_it_had_not_been(
    threshold: int,
) -> None:
    beyond = 0
    for seed in range(SEEDS):
        made = story(seed, threshold)
        follower = ChainFollower(threshold=threshold)
        steps = follow(follower, made.rows)
        assert follower.chain.head == made.chain[-1][1], seed
        path: list[bytes] = []
        for at, step in enumerate(steps):
            apply(path, step.update)
            beyond += step.update.beyond
            head = step.update.added[-1]
            again = ChainFollower(start=head.hash, number=head.number, threshold=threshold)
            rest = made.rows[parse_token(step.token)["s"] - 1 :]
            assert changes(follow(again, rest)) == changes(steps[at + 1 :]), (seed, at)
        assert path[-len(made.chain) + 1 :] == [hash for _, hash, _ in made.chain[1:]], seed
    assert beyond or threshold == 128
