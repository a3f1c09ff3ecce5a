"""`seriatim.table`: a range of messages from the files of a store, as columns."""

import os
from collections.abc import Callable, Iterable
from typing import Final

from sequencer.journal import Lost, Reader, StoreError
from seriatim.client.errors import BrokerError, InvalidArgument
from seriatim.client.message_table import NUMBER_MAX, Table, TableBuilder, TableWish
from sublist.subject import covers, is_pattern

CHUNK_BYTES: Final = 1 << 18  # the memory of larger ones is new each time
EVERY: Final = ">"


def table(
    directory: str | os.PathLike[str],
    first: int | None = None,
    last: int | None = None,
    *,
    subject: str = EVERY,
    columns: Iterable[str] | None = None,
) -> Table:
    """Return the messages numbered `first` to `last` in a broker's directory as columns.

    It reads the files beside the broker, or without one. The arguments and the table are those of
    `Client.table`. Raises `InvalidArgument` if there is no store, and `BrokerError` if its end is
    cut off meanwhile.
    """
    wish = TableWish(first, last, subject, columns)
    wanted = wanted_of(subject)
    reader = open_store(directory)
    follower = reader.follow_columns(
        wish.first or 0, wish.last, wanted, bytes_max=CHUNK_BYTES, columns=wish.names
    )
    builder = TableBuilder(wish.names, follower.next, NUMBER_MAX if last is None else last)
    try:
        while (found := follower.poll()) is not None:
            if isinstance(found, Lost):
                builder.lose(found.first, found.last)
            else:
                builder.add(found)
        builder.reach(follower.next)
    except StoreError as error:
        raise BrokerError(str(error)) from None
    finally:
        follower.close()
    return builder.table(reader.journal)


def open_store(directory: str | os.PathLike[str]) -> Reader:
    """Return a reader of the store. Raises `InvalidArgument` if there is none."""
    try:
        return Reader(os.fspath(directory))
    except StoreError as error:
        raise InvalidArgument(str(error)) from None


def wanted_of(subject: str) -> Callable[[bytes], bool] | None:
    """Return what accepts the subjects that match; None for all. Raises `InvalidArgument`."""
    pattern = subject.encode("utf-8", "surrogateescape")
    if not is_pattern(pattern):
        raise InvalidArgument(
            f"{subject!r:.60} is not a subject: words joined by dots, where * is any one word, and"
            " > at the end all that follow"
        )
    return None if subject == EVERY else lambda given: covers(pattern, given)
