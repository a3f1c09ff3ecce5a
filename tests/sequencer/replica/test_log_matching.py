"""Where two logs part, found from their tables of epochs."""

from hypothesis import given
from hypothesis import strategies as st

from sequencer.replica.log_matching import epoch_table, last_common
from sequencer.replica.member_messages import Epochs


class Log:
    """Epochs of records from `first` on; `before` is that of the record just before."""

    def __init__(self, epochs: list[int], first: int = 1, before: int = 0) -> None:
        self.first, self.before, self._epochs = first, before, epochs

    @property
    def last(self) -> int:
        return self.first + len(self._epochs) - 1

    def epochs(self) -> Epochs:
        table: dict[int, int] = {}
        for number, epoch in enumerate(self._epochs, self.first):
            table.setdefault(epoch, number)
        return tuple(table.items())

    def epoch_of(self, number: int) -> int:
        return self.before if number < self.first else self._epochs[number - self.first]


def common(mine: Log, theirs: Log) -> int:
    return last_common(epoch_table(mine), mine.last, epoch_table(theirs), theirs.last)


def test_given_two_logs_when_they_part_in_an_epoch_then_its_shorter_end_is_common() -> None:
    assert common(Log([1, 1, 1, 1, 3, 3, 3]), Log([1, 1, 1, 1, 1, 2])) == 4


def test_given_logs_without_a_common_epoch_then_nothing_is_common() -> None:
    assert common(Log([2, 2]), Log([1, 1, 1])) == 0
    assert common(Log([]), Log([1])) == common(Log([1]), Log([])) == 0


def test_given_an_empty_log_when_retention_deleted_all_then_its_last_number_is_still_known() -> (
    None
):
    empty = Log([], first=6, before=1)
    assert epoch_table(empty) == ((1, 5),)
    assert common(Log([1] * 9), empty) == common(empty, Log([1] * 9)) == 5


def test_given_a_retained_log_then_its_first_epoch_begins_one_number_earlier() -> None:
    assert epoch_table(Log([4, 4, 5], first=8, before=4)) == ((4, 7), (5, 10))
    assert epoch_table(Log([4, 4, 5], first=8, before=3)) == ((3, 7), (4, 8), (5, 10))


@given(st.data())
def test_given_logs_of_one_history_when_matched_then_all_that_is_equal_is_found(
    data: st.DataObject,
) -> None:
    """One coordinator an epoch: it begins with some log, and only appends to it."""
    logs: list[list[int]] = [[]]
    for epoch in range(1, data.draw(st.integers(1, 6)) + 1):
        begun = list(data.draw(st.sampled_from(logs)))
        grown = begun + [epoch] * data.draw(st.integers(1, 4))
        logs += [grown[:end] for end in range(len(begun) + 1, len(grown) + 1)]
    mine, theirs = data.draw(st.sampled_from(logs)), data.draw(st.sampled_from(logs))
    equal = 0
    while equal < min(len(mine), len(theirs)) and mine[equal] == theirs[equal]:
        equal += 1
    assert common(Log(mine), Log(theirs)) == equal
