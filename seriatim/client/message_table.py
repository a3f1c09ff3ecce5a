"""A table: a range of messages as columns, for programs that look at very many.

    TableBuilder     gathers chunks (chunk_columns.py) as they arrive
    `-- Table        what they hold: columns, rows; Arrow, pandas and Polars on the same memory

Numbers and times are gathered into one array each. The other columns stay in the chunks in which
they came, and become objects when somebody asks for one. Memory: 16 bytes for each message, and
the chunks, if there are others. Only the standard library is needed, but for the `to_` methods.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from operator import index
from types import ModuleType
from typing import Any, Final, overload

from seriatim.client.chunk_columns import COLUMNS, ChunkError, Columns, Strings
from seriatim.client.errors import InvalidArgument, Lost
from seriatim.client.protocol import check_sendable, read_number
from seriatim.client.stream_message import Message, read_headers

INTEGERS: Final = ("number", "time")
NUMBER_MAX: Final = (1 << 63) - 1
READ_BYTES: Final = 1 << 40  # for all answers together: only the range limits a read


class TableWish:
    """The wishes of a user for a table, checked; None for `first` and `last`: what there is."""

    def __init__(
        self, first: int | None, last: int | None, subject: str, columns: Iterable[str] | None
    ) -> None:
        check_sendable(subject)
        first, last = _number(first), _number(last)
        if first is not None and not 1 <= first <= NUMBER_MAX:
            raise InvalidArgument(f"first={first}: the first number is 1")
        if last is not None and last < (first or 1) - 1:  # one less is an empty table
            raise InvalidArgument(f"last={last} is before the first number, {first or 1}")
        if isinstance(columns, str):
            raise InvalidArgument(f"columns={columns!r} is a text; give a list of names")
        wanted = COLUMNS if columns is None else tuple(columns)
        for name in wanted:
            if name not in COLUMNS:
                raise InvalidArgument(f"{name!r} is no column; there are {', '.join(COLUMNS)}")
        self.first, self.last = first, last
        self.subject = subject
        self.names = tuple(name for name in COLUMNS if name == "number" or name in wanted)

    def request(self, first: int, last: int) -> bytes:
        """Return the payload of `$SEQ.READ`."""
        asked = {"from": first, "to": last, "subject": self.subject, "columns": self.names}
        return json.dumps({**asked, "max_bytes": READ_BYTES}).encode()


class TableColumn(Sequence[Any]):
    """One column of a table: text, headers or payloads; each is made when it is asked for.

    Raises `ChunkError` if what the broker has sent is damaged.
    """

    def __init__(self, pieces: list[Strings], read: Callable[[bytes], Any]) -> None:
        self._pieces = pieces
        self._read = read
        self._begins: list[int] = []  # the row with which each piece begins
        self._rows = 0
        for piece in pieces:
            self._begins.append(self._rows)
            self._rows += len(piece)

    def __len__(self) -> int:
        return self._rows

    @overload
    def __getitem__(self, row: int) -> Any: ...

    @overload
    def __getitem__(self, row: slice) -> list[Any]: ...

    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[at] for at in range(*row.indices(self._rows))]
        at = row + self._rows if row < 0 else row
        if not 0 <= at < self._rows:
            raise IndexError(f"row {row} of {self._rows}")
        piece = bisect_right(self._begins, at) - 1
        return self._read(bytes(self._pieces[piece][at - self._begins[piece]]))

    def __iter__(self) -> Iterator[Any]:
        for piece in self._pieces:
            yield from map(self._read, piece.blobs())


class Table:
    """Messages as columns: those numbered `first` to `last` that match the subject.

    `column(name)` is one of number, time (ns since 1970), subject, reply, headers and payload, as
    far as they were asked for. `rows()` yields a `Message` for each. `to_arrow`, `to_pandas` and
    `to_polars` make tables of these packages.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        integers: dict[str, bytearray],
        pieces: list[Columns],
        lost: tuple[Lost, ...],
        next: int,
        journal: str,
    ) -> None:
        self.names = names
        self.lost = lost  # the numbers of the range that do not exist any more
        self.next = next  # the number to continue with, behind all that was looked at
        self.journal = journal  # the id of the journal that the numbers are of
        self._integers = {
            name: memoryview(values).toreadonly().cast("q") for name, values in integers.items()
        }
        self._pieces = pieces

    def __len__(self) -> int:
        return len(self._integers["number"])

    def __repr__(self) -> str:
        numbers = self._integers["number"]
        span = f", numbers {numbers[0]} to {numbers[-1]}" if len(numbers) else ""
        return f"<Table of {len(numbers)} messages{span}: {', '.join(self.names)}>"

    def column(self, name: str) -> Any:
        """Return a column: a memoryview of int64 for number and time, otherwise a sequence.

        The sequence has text for subject and reply (empty: none), dicts for headers, and bytes
        for payload. Raises `InvalidArgument` for a column that the table does not have.
        """
        self._check(name)
        if name in INTEGERS:
            return self._integers[name]
        return TableColumn(self._strings(name), READ_AS[name])

    def rows(self) -> Iterator[Message]:
        """Yield the messages, one after the other; what is not in the table is empty.

        Raises `ChunkError` if what the broker has sent is damaged.
        """
        if self._pieces:
            for piece in self._pieces:
                yield from messages_of(piece)
        else:
            times = self._integers.get("time", repeat(0))
            for number, time in zip(self._integers["number"], times, strict=False):
                yield Message("", "", b"", b"", 0, number, time)

    def to_arrow(self) -> Any:
        """Return a pyarrow.Table on the same memory.

        number int64, time timestamp[ns, UTC], subject and reply string (null: no reply), headers
        map<string, string> with every line of them, payload binary. Raises `ImportError` without
        pyarrow, and `ChunkError` if what the broker has sent is damaged.
        """
        pyarrow = _needed("pyarrow", "arrow")
        from seriatim.client import arrow_columns

        made = {
            "subject": lambda strings: arrow_columns.text(arrow_columns.binary(strings)),
            "reply": arrow_columns.replies,
            "headers": arrow_columns.headers,
            "payload": arrow_columns.binary,
        }
        columns = []
        for name in self.names:
            kind = arrow_columns.TYPES[name]
            if name in INTEGERS:
                arrays = [arrow_columns.integers(self._integers[name], kind)]
            else:
                arrays = [made[name](strings) for strings in self._strings(name)]
            columns.append(pyarrow.chunked_array(arrays, kind))
        return pyarrow.table(columns, names=list(self.names))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Give it to any program that takes Arrow's tables, such as DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame; headers are dicts. Raises as `to_arrow` does."""
        _needed("pandas", "pandas")
        return self.to_arrow().to_pandas(maps_as_pydicts="lossy")

    def to_polars(self) -> Any:
        """Return a polars.DataFrame; headers are maps. Raises as `to_arrow` does."""
        polars = _needed("polars", "polars")
        return polars.from_arrow(self.to_arrow())

    def _check(self, name: str) -> None:
        if name not in self.names:
            there = ", ".join(self.names)
            raise InvalidArgument(f"this table has no column {name!r}; it has {there}")

    def _strings(self, name: str) -> list[Strings]:
        return [piece.strings(name) for piece in self._pieces]


class TableBuilder:
    """The part of a table that has arrived. Written by one reading.

    `next` is the number to continue with.
    """

    def __init__(self, names: tuple[str, ...], first: int, last: int) -> None:
        self.next = first
        self._names = names
        self._last = last
        self._integers = {name: bytearray() for name in names if name in INTEGERS}
        self._keeps = len(names) > len(self._integers)
        self._pieces: list[Columns] = []
        self._lost: list[Lost] = []

    def add(self, chunk: bytes | memoryview) -> None:
        """Add the next chunk. Raises `ChunkError` unless it continues the table."""
        columns = Columns(chunk)
        if columns.names != self._names:
            raise ChunkError(
                f"it has {', '.join(columns.names)}, not the columns {', '.join(self._names)}"
            )
        rows, numbers = len(columns), columns.numbers
        if not rows:
            return
        first, last = numbers[0], numbers[-1]
        if not self.next <= first <= last <= self._last or last - first < rows - 1:
            raise ChunkError(
                f"{rows} numbers {first} to {last} were sent for {self.next} to {self._last}"
            )
        for name, values in self._integers.items():
            values += getattr(columns, name + "s").cast("B")
        if self._keeps:
            self._pieces.append(columns)
        self.next = last + 1

    def lose(self, first: int, last: int) -> None:
        """Note that these numbers do not exist any more. Raises `ChunkError` for others."""
        before = self._lost[-1].last + 1 if self._lost else 0
        if not before <= first <= last <= self._last:
            raise ChunkError(f"numbers {first} to {last} are said to be lost, out of order")
        self._lost.append(Lost(first, last))

    def reach(self, following: int) -> None:
        """Continue with this number. Raises `ChunkError` if that is not ahead."""
        if not self.next <= following <= max(self._last + 1, self.next):
            raise ChunkError(
                f"it continues with {following}, and not in {self.next} to {self._last}"
            )
        self.next = following

    def take_answer(self, answer: Message) -> bool:
        """Add an answer to `$SEQ.READ`; True if it is the last one. Raises `ChunkError`."""
        headers, before = answer.headers, self.next
        is_last = "Seriatim-Last" in headers
        try:
            self.add(answer.payload)
            words = headers.get("Seriatim-Lost", "").replace(",", " ").split()
            for one, _, two in (word.partition("-") for word in words):
                self.lose(read_number(one), read_number(two))
            self.reach(read_number(headers["Seriatim-Next"]))
            if self.next == before and not is_last:
                raise ChunkError("it does not get on")
        except (ValueError, KeyError) as error:
            raise ChunkError(f"$SEQ.READ: the answer is damaged: {error}") from None
        return is_last

    def table(self, journal: str) -> Table:
        """Return what has arrived, as a table."""
        lost = tuple(self._lost)
        return Table(self._names, self._integers, self._pieces, lost, self.next, journal)


def messages_of(columns: Columns) -> Iterator[Message]:
    """Return the messages of a chunk. Raises `ChunkError` if it is damaged."""
    nothing = repeat(0, len(columns))
    return map(
        Message,
        *(_texts(columns, "subject"), _texts(columns, "reply")),
        *(_blobs(columns, "headers"), _blobs(columns, "payload")),
        repeat(0),
        columns.numbers.tolist() if "number" in columns.names else nothing,
        columns.times.tolist() if "time" in columns.names else nothing,
    )


def _blobs(columns: Columns, name: str) -> Iterable[bytes]:
    """Return headers or payloads; none where the column is empty, or was left out."""
    if name not in columns.names or not len(columns.strings(name).data):
        return repeat(b"", len(columns))
    return columns.strings(name).blobs()


def _texts(columns: Columns, name: str) -> Iterable[str]:
    """Return subjects or replies as text; none where the column is empty, or was left out."""
    if name not in columns.names or not len(columns.strings(name).data):
        return repeat("", len(columns))
    strings = columns.strings(name)
    data = bytes(strings.data)
    if data.isascii():
        text = data.decode("ascii")
        return [text[start:end] for start, end in pairwise(strings.ends())]
    return map(_as_text, strings.blobs())


def _number(given: Any) -> int | None:
    try:
        return None if given is None else index(given)  # NumPy's integers, too
    except TypeError:
        raise InvalidArgument(f"{given!r:.60} is not the number of a message") from None


def _as_text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def _as_headers(block: bytes) -> dict[str, str]:
    return read_headers(block[block.find(b"\n") + 1 :])


READ_AS: Final[dict[str, Callable[[bytes], Any]]] = {
    "subject": _as_text,
    "reply": _as_text,
    "headers": _as_headers,
    "payload": bytes,
}


def _needed(package: str, extra: str) -> ModuleType:
    """Import a package. Raises `ImportError` that says how to install it."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        raise ImportError(
            f"this needs {package}, which is not installed here: pip install 'seriatim[{extra}]'",
            name=package,
        ) from None
