"""The beginning of `seriatim sub` in the past: --from, --to, --since, --last.

The broker replays the past to a special kind of subscription (docs/protocol.md). Messages come with
the subjects they were published to; in between come empty messages on

    $SEQ.LOST.<first>.<last>   numbers that were asked for and no longer exist
    $SEQ.END.<last>            the end of the range

After a reconnect, `after` gives the next request: everything after the last message shown.
`--until-now` makes it a range, up to the last number assigned (journal_state.py).
"""

import time
from dataclasses import dataclass

from sequencer.sequencer import NUMBER_MAX
from seriatim.cli.errors import UsageError
from seriatim.cli.moment import moment
from seriatim.settings.amounts import read_digits
from seriatim.settings.moments import show_time
from sublist.subject import covers

OWN_PREFIX = "$SEQ."  # only the broker itself publishes there
LOST_PREFIX, END_PREFIX = "$SEQ.LOST.", "$SEQ.END."


@dataclass(frozen=True, slots=True)
class Past:
    """A request to the broker for the past, and the same in words."""

    request: str  # between `$SEQ.` and the subject
    words: str
    first: int = 0  # 0: it begins at a time, or with the last of each subject
    last: int = 0  # 0: it has no end
    since_ms: int = 0
    until_now: bool = False

    def subject(self, subjects: list[str]) -> str:
        """The subject of one subscription for all of `subjects`: several would not share one order.

        For more than one subject it may match more than they do.
        """
        return f"$SEQ.{self.request}.{common(subjects)}"

    def after(self, number: int) -> "Past | None":
        """Return the rest of the past after `number`; None if that was the end."""
        if self.last and number >= self.last:
            return None
        return numbers(max(number + 1, self.first), self.last)


def numbers(first: int, last: int = 0, until_now: bool = False) -> Past:
    """All numbers from `first` on; up to `last`, unless that is 0."""
    if last:
        words = f" from number {first} to {last}"
        return Past(f"RANGE.{first}.{last}", words, first, last, until_now=until_now)
    return Past(f"FROM.{first}", f" from number {first}", first, until_now=until_now)


def read_past(
    first: int | None,
    last: int | None,
    since: str | None,
    latest: bool,
    until_now: bool = False,
) -> Past | None:
    """The past that the flags ask for, if any. Raises `CliError`."""
    given = [
        flag
        for flag, value in (("--from", first), ("--since", since), ("--last", latest or None))
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"give one of {' and '.join(given)}, not both")
    if last is not None and first is None:
        raise UsageError("--to is the end of a range; give its beginning with --from")
    if until_now and first is None and since is None:
        raise UsageError("--until-now needs --from or --since")
    if first is not None:
        if last is not None and last < first:
            raise UsageError(f"--to {last} is before --from {first}")
        return numbers(first, last or 0, until_now)
    if since is not None:
        time_ns = moment(since, time.time_ns())
        time_ms, words = time_ns // 1_000_000, f" since {show_time(time_ns)}"
        return Past(f"SINCE.{time_ms}", words, since_ms=time_ms, until_now=until_now)
    return Past("LAST", ", the last message of each first") if latest else None


def common(subjects: list[str]) -> str:
    """A subject that matches all of these: their common first words, then `>`."""
    if len(set(subjects)) == 1:
        return subjects[0]
    words: list[str] = []
    for column in zip(*(subject.split(".") for subject in subjects), strict=False):
        if len(set(column)) > 1 or column[0] in ("*", ">"):
            break
        words.append(column[0])
    shortest = min(len(subject.split(".")) for subject in subjects)
    return ".".join([*words[: shortest - 1], ">"])


def takes_in(subjects: list[str], subject: str) -> bool:
    """True if a message that came through `common` was asked for."""
    published = subject.encode()
    return any(covers(pattern.encode(), published) for pattern in subjects)


def lost(subject: str) -> str:
    """The text for an event on `$SEQ.LOST.`; empty for any other."""
    numbers = _numbers(subject, LOST_PREFIX)
    if len(numbers) != 2 or numbers[0] > numbers[1]:
        return ""
    first, last = numbers
    count = last - first + 1
    if count == 1:
        return f"LOST number {first}: the broker no longer has it"
    return f"LOST numbers {first} to {last}: the broker no longer has these {count}"


def first_lost(subject: str) -> int:
    """The first number of an event on `$SEQ.LOST.`; 0 for any other."""
    return int(subject.split(".")[2]) if lost(subject) else 0


def last_lost(subject: str) -> int:
    """The last number of an event that `lost` reported."""
    return int(subject.split(".")[3])


def is_end(subject: str) -> bool:
    """True if this event is the end of the range."""
    return len(_numbers(subject, END_PREFIX)) == 1


def _numbers(subject: str, prefix: str) -> list[int]:
    """The message numbers after a prefix; none if anything else is there."""
    words = subject.removeprefix(prefix).split(".") if subject.startswith(prefix) else []
    numbers = [read_digits(word, NUMBER_MAX) or 0 for word in words]
    return numbers if all(numbers) else []
