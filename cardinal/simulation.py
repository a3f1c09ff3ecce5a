"""A made-up chain: blocks with forks, and their messages as a bad network delivers them.

Everything is derived from one seed: the same plan gives the same bytes. Each block weighs one more
than its parent. A fork either stays lighter than the chain or overtakes it by one, which is a
reorg. Each producer sends every message; then each copy is lost, sent twice or delayed, by the
plan.

A plan with one producer and without loss leaves nothing missing, whatever the other values are.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from random import Random

from cardinal.draft import Draft, SubBatchDraft, apply
from cardinal.messages import HASH_SIZE
from cardinal.producer import Producer
from cardinal.schema import Schema

SCHEMA = Schema({"a/": "accounts", "l/[0-9a-f]+/": "logs", "s/": "storage"}, default="blocks")
Sent = tuple[str, bytes, bytes]  # topic, key, value


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters: a block has about `updates` messages, and `sub_batch` more."""

    seed: int = 0
    blocks: int = 100
    updates: int = 20
    value_bytes: int = 64
    deletes: float = 0.1  # the fraction of updates that are deletes instead
    sub_batch: int = 3  # updates in the sub-batch of a block; 0: no sub-batches
    forks: float = 0.1  # the probability of a fork at each block
    fork_depth: int = 3  # a fork replaces at most this many blocks of the chain
    producers: int = 1
    duplicates: float = 0.0  # the fraction of messages that is sent twice
    reorder: int = 0  # a message may arrive after as many that were sent later
    loss: float = 0.0  # the fraction of messages that is lost


class Simulation:
    """Blocks in the order they are produced, and then their messages."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chain = [self._genesis()]  # the final chain of a consumer that follows the weights
        self.forks = self.reorgs = self.lost = 0

    @property
    def state(self) -> dict[str, bytes]:
        """Every key and its value after the last block of the chain."""
        found: dict[str, bytes] = {}
        for block in self.chain:
            apply(found, block)
        return found

    def blocks(self) -> Iterator[Draft]:
        """The blocks, the first one without a parent; at least as many as planned."""
        random = Random(f"blocks {self.plan.seed}")
        yield self.chain[0]
        made = 1
        while made < self.plan.blocks:
            depth = 0
            if random.random() < self.plan.forks:
                depth = min(random.randint(1, max(self.plan.fork_depth, 1)), len(self.chain) - 1)
            branch, parent = [], self.chain[-1 - depth]
            overtakes = depth > 0 and random.random() < 0.5
            for _ in range(depth + overtakes or 1):
                parent = self._block(parent, made, random)
                branch.append(parent)
                made += 1
                yield parent
            self.forks += depth > 0
            self.reorgs += overtakes
            if not depth or overtakes:
                self.chain[len(self.chain) - depth :] = branch

    def messages(self) -> Iterator[tuple[Draft | None, list[Sent]]]:
        """Each block with the messages that arrive meanwhile; at the end the rest, with None."""
        plan = self.plan
        random = Random(f"network {plan.seed}")
        producers = [Producer(SCHEMA) for _ in range(plan.producers)]
        waiting: list[tuple[int, int, Sent]] = []  # arrival time, sequence
        count = 0
        for block in self.blocks():
            for producer in producers:
                for message in _sent(producer, block):
                    for _ in range(1 + (random.random() < plan.duplicates)):
                        if random.random() < plan.loss:
                            self.lost += 1
                            continue
                        count += 1
                        due = count + (random.randint(0, plan.reorder) if plan.reorder else 0)
                        heapq.heappush(waiting, (due, count, message))
            come = []
            while waiting and waiting[0][0] <= count:
                come.append(heapq.heappop(waiting)[2])
            yield block, come
        yield None, [heapq.heappop(waiting)[2] for _ in range(len(waiting))]

    def _genesis(self) -> Draft:
        hash = sha256(f"genesis {self.plan.seed}".encode()).digest()
        return Draft(0, hash, bytes(HASH_SIZE), 0)

    def _block(self, parent: Draft, made: int, random: Random) -> Draft:
        plan = self.plan
        number = parent.number + 1
        hash = sha256(parent.hash + made.to_bytes(8, "big")).digest()
        updates, deletes = {f"h/{number}": hash}, []
        for index in range(plan.updates):
            name = random.randrange(10 * plan.updates)
            if random.random() < plan.deletes:
                deletes.append(f"a/{name:x}")
            elif index % 4:
                updates[f"a/{name:x}"] = random.randbytes(plan.value_bytes)
            else:
                updates[f"l/{number:x}/{index}"] = random.randbytes(plan.value_bytes)
        batches = {}
        if plan.sub_batch:
            names = [random.randrange(10 * plan.sub_batch) for _ in range(plan.sub_batch)]
            content = {f"s/{name:x}": random.randbytes(32) for name in names}
            gone = [f"s/{random.randrange(10 * plan.sub_batch):x}"]
            # Competing blocks have the same id, as in the reference's use.
            batches["s/"] = SubBatchDraft(number.to_bytes(HASH_SIZE, "big"), content, gone)
        deletes = [key for key in dict.fromkeys(deletes) if key not in updates]
        return Draft(number, hash, parent.hash, number, updates, deletes, batches)


def _sent(producer: Producer, block: Draft) -> Iterator[Sent]:
    """All messages of a block."""
    for part in block.messages(producer):
        for topic, messages in part.items():
            for key, value in messages:
                yield topic, key, value
