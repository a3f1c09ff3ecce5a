"""The beginning of `seriatim sub` in the past: --from, --to, --since, --last, --until-now.

A `Past` is what the flags ask for: the arguments of `read`, and the same in words. Several subjects
are read as the one that has all of them, for only so they come in one order; what else it matches
is left out.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

from seriatim.cli.errors import UsageError
from seriatim.cli.moment import moment
from seriatim.client.errors import Lost, Position
from seriatim.client.stream_info import StreamInfo
from seriatim.settings.moments import show_time
from sublist.subject import covers


@dataclass(frozen=True, slots=True)
class Past:
    """A beginning in the past, and perhaps an end: times in ns since 1970."""

    first: int = 0  # 0: it begins at a time, or with the last of each subject
    last: int = 0  # 0: it has no end
    since: int = 0
    latest: bool = False  # with the last message of each subject
    until_now: bool = False
    behind: Position | None = None  # it begins behind this place
    or_now: bool = False  # with what is published from now on

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `read`."""
        return {
            "start": self.behind or self.first or None,
            "since": show_time(self.since) if self.since else None,
            "last": self.latest,
            "until": self.last or None,
            "or_now": self.or_now,
        }

    @property
    def begin(self) -> int:
        """The number it begins with; 0 if that is not known."""
        return self.behind.number + 1 if self.behind else self.first

    def words(self, number: int = 0) -> str:
        """Say where it begins, or goes on with this number."""
        first, end = number or self.begin, f" to {self.last}" if self.last else ""
        if first:
            return f" from number {first}{end}"
        if self.or_now:
            return ""
        if self.latest:
            return ", the last message of each first"
        return f" since {show_time(self.since)}" + (f" to number {self.last}" if end else "")

    def with_end(self, kept: StreamInfo) -> "Past | None":
        """Return it with an end at the last number there is; None if there is nothing."""
        last = min(self.last or kept.last, kept.last)
        if not last or self.begin > last or self.since > kept.newest_ns + 999_999:
            return None  # the broker's time is in ms
        return replace(self, last=last)

    def waits_for(self, kept: StreamInfo) -> str:
        """Return a line to print if the wanted numbers do not exist yet; empty if they do."""
        if self.last > kept.last:
            awaited = max(self.begin, kept.last + 1)
            these = f"{awaited} to {self.last}" if awaited < self.last else f"{self.last}"
            return (
                f"the last number given is {kept.last}: waiting for {these}; --until-now stops at"
                " the newest message"
            )
        if self.first > kept.last + 1:
            return f"the last number given is {kept.last}: waiting for {self.first}"
        return ""


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
        return Past(first, last or 0, until_now=until_now)
    if since is not None:
        return Past(since=max(moment(since, time.time_ns()), 1), until_now=until_now)
    return Past(latest=True) if latest else None


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
    published = subject.encode("utf-8", "surrogateescape")
    return any(covers(pattern.encode(), published) for pattern in subjects)


def lost(item: Lost) -> str:
    """Say which numbers are lost."""
    count = item.last - item.first + 1
    if count == 1:
        return f"LOST number {item.first}: the broker no longer has it"
    return f"LOST numbers {item.first} to {item.last}: the broker no longer has these {count}"
