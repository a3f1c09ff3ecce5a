"""Finds where two logs diverge, by their tables of epochs, without a look at the records.

One process writes the records of one epoch, and writes each number once. So the same number of the
same epoch is the same record in both logs, and so is everything before it:

    mine     1 1 1 1 3 3 3         (1, 1) (3, 5)           last 7
    theirs   1 1 1 1 1 2           (1, 1) (2, 6)           last 6
                   ^ both have epoch 1: here it ends at 4, there at 5. So 4 is the last in common
"""

from typing import Protocol

from sequencer.replica.member_messages import Epochs


class EpochedLog(Protocol):
    """The part of a journal that matching needs."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    def epochs(self) -> Epochs: ...
    def epoch_of(self, number: int) -> int: ...


def epoch_table(log: EpochedLog) -> Epochs:
    """Return (epoch, its first number), also for the number just before the first one here.

    Retention may have deleted everything. That number is still known to be in common then.
    """
    table, before = log.epochs(), log.first - 1
    if not before:
        return table
    epoch = log.epoch_of(before)
    rest = table[1:] if table and table[0][0] == epoch else table
    return ((epoch, before), *rest)


def last_common(mine: Epochs, last: int, theirs: Epochs, their_last: int) -> int:
    """Return the last number whose record is the same in both logs; 0 if none is known to be.

    It may be smaller than the first number that is here: then the other log lacks what was
    deleted, and begins again.
    """
    known = {epoch for epoch, _ in theirs}
    for at in range(len(mine) - 1, -1, -1):
        epoch = mine[at][0]
        if epoch in known:
            end = mine[at + 1][1] - 1 if at + 1 < len(mine) else last
            later = [first for other, first in theirs if other > epoch]
            return min(end, min(later) - 1 if later else their_last)
    return 0
