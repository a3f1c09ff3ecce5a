"""The state of the screen: keys come in, lines come out; no terminal, no network and no clock here.

    heading, tabs                always
    a table, a detail or help    what the keys have chosen
    the last line                a filter that is typed, trouble, or the keys

A selected row stays selected while the order changes; before one is selected, the top stays in
view.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.text import Text

from seriatim.cli.printable import printable
from seriatim.cli.stream.stream_listing import counted
from seriatim.cli.top.amounts_shown import clock, span
from seriatim.cli.top.broker_rows import Row
from seriatim.cli.top.broker_watch import PAGES, BrokerWatch
from seriatim.cli.top.page_values import whole
from seriatim.cli.top.row_detail import detail_lines
from seriatim.cli.top.row_tables import (
    CONNECTIONS,
    PAGE_ROWS,
    PAGE_ROWS_MAX,
    VIEWS,
    Column,
    RowTable,
)
from seriatim.cli.top.top_heading import ALARM, SPARKS, fitted, heading

INTERVALS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # seconds, of + and -
WIDE: Final = 120  # columns
FILTER_MAX: Final = 200  # characters
PAUSED: Final = "paused"
HELP: Final = (
    ("1 to 8", "clients, closed, streams, consumers, subs, feeds, cluster, figures"),
    ("up, down", "select a row; also PgUp, PgDn, Home, End, j, k"),
    ("left, right", "show other columns"),
    ("Enter", "show all of the selected row; a client's subscriptions, too"),
    ("Esc", "go back; drop the filter"),
    ("s", "sort by the next column"),
    ("S", "sort the other way round"),
    ("/", "show only the rows that contain a text"),
    ("p", "pause, and go on"),
    ("+ -", "a longer, a shorter interval"),
    ("r", "ask the broker now"),
    ("?", "this help"),
    ("q", "quit"),
)
FOOT: Final = (
    *(("q", "quit"), ("?", "help"), ("Enter", "detail"), ("/", "filter"), ("s", "sort")),
    *(("p", "pause"), ("+-", "interval")),
)


@dataclass(slots=True)
class TableState:
    """How one view is shown: its order, its shifted columns, and the selected row."""

    column: Column
    descending: bool
    shift: int = 0
    selected: object = None  # a row's id
    at: int = 0  # the row's place, when it was shown last
    top: int = 0

    def sort_by(self, column: Column) -> None:
        """Sort by this column: text from a to z, numbers from the largest."""
        self.column, self.descending = column, not column.is_text

    def shift_columns(self, by: int, most: int) -> None:
        """Shift the columns, by at most so many in all."""
        self.shift = max(0, min(most, self.shift + by))

    def select(self, row: object, at: int) -> None:
        """Select the row with this id, which is in place `at`; None: the first one."""
        self.selected, self.at = row, at

    def scroll(self, at: int, rows: int, body: int) -> None:
        """Scroll so that row `at` is among the `body` rows on the screen."""
        self.at = at
        self.top = max(0, min(self.top, at, rows - body))
        self.top = max(self.top, at - body + 1)


@dataclass(slots=True)
class TopScreen:
    """One user's view of one broker."""

    watch: BrokerWatch
    where: str  # the address, for the title
    interval: float = 1.0
    sparks: str = SPARKS
    view: RowTable = CONNECTIONS
    words: str = ""  # the filter
    is_typing: bool = False
    is_paused: bool = False
    is_helping: bool = False
    detail: Row | None = None
    detail_top: int = 0
    trouble: str = ""
    is_hurried: bool = False  # the next round need not wait
    states: dict[str, TableState] = field(default_factory=dict)
    body: int = 1  # rows of the table on the screen, as drawn last
    _shown: list[Row] = field(default_factory=list)
    _shown_for: tuple[object, ...] = (None,)  # the rows, filter and order that `_shown` is of

    def __post_init__(self) -> None:
        for view in VIEWS:
            column = view.column(view.sort)
            assert column is not None, view.sort
            self.states[view.kind] = TableState(column, not column.is_text)

    @property
    def state(self) -> TableState:
        """The state of the chosen view."""
        return self.states[self.view.kind]

    def wanted(self) -> dict[str, str]:
        """Return the pages to ask for, by name: what is on the screen needs no others."""
        paths = {"varz": "/varz"}
        view = self.view
        if self.detail is not None and view is CONNECTIONS:
            paths["detail"] = f"/connz?subs=detail&auth=1&cid={self.detail['id']}"
        elif view.page:
            rows = PAGE_ROWS_MAX if self.words else PAGE_ROWS
            paths[PAGES[view.kind]] = view.page.format(
                rows=rows, sort=self.state.column.broker_sort
            )
        return paths

    # Keys

    def press(self, key: str) -> bool:
        """Take a key; return False if it ends the view."""
        if self.is_typing:
            self._type(key)
            return True
        if key == "q":
            return False
        if self.is_helping:
            self.is_helping = False
            return True
        if key in self._general():
            self._general()[key]()
        elif self.detail is not None:
            self._move_detail(key)
        else:
            self._move(key)
        return True

    def _general(self) -> Mapping[str, Callable[[], None]]:
        chosen = {str(at): self._chooser(view) for at, view in enumerate(VIEWS, 1)}
        return chosen | {
            "?": self._help,
            "h": self._help,
            "/": self._begin_filter,
            "s": self._sort_by_next,
            "S": self._reverse,
            "p": self._pause,
            "+": lambda: self._change_interval(1),
            "-": lambda: self._change_interval(-1),
            "r": self._hurry,
            "escape": self._go_back,
            "enter": self._open,
        }

    def _chooser(self, view: RowTable) -> Callable[[], None]:
        def choose() -> None:
            self.view, self.detail = view, None
            self._hurry()

        return choose

    def _help(self) -> None:
        self.is_helping = True

    def _hurry(self) -> None:
        self.is_hurried = True

    def _begin_filter(self) -> None:
        self.is_typing, self.detail = True, None
        self._hurry()

    def _type(self, key: str) -> None:
        before = bool(self.words)
        if key in ("enter", "escape"):
            self.is_typing = False
            self.words = "" if key == "escape" else self.words
        elif key == "backspace":
            self.words = self.words[:-1]
        elif key == "clear":
            self.words = ""
        elif len(key) == 1 and len(self.words) < FILTER_MAX:
            self.words += key
        if bool(self.words) != before and self.view.total:
            self._hurry()  # more rows are asked for with a filter

    def _sort_by_next(self) -> None:
        columns, state = self.view.columns, self.state
        state.sort_by(columns[(columns.index(state.column) + 1) % len(columns)])
        self._hurry()

    def _reverse(self) -> None:
        self.state.descending = not self.state.descending

    def _pause(self) -> None:
        self.is_paused = not self.is_paused
        self.is_hurried = not self.is_paused

    def _change_interval(self, by: int) -> None:
        if by > 0:
            self.interval = next((one for one in INTERVALS if one > self.interval), self.interval)
        else:
            smaller = [one for one in INTERVALS if one < self.interval]
            self.interval = smaller[-1] if smaller else self.interval

    def _go_back(self) -> None:
        if self.detail is not None:
            self.detail = None
            self._hurry()
        elif self.words:
            self.words = ""
        else:
            self.state.select(None, 0)

    def _open(self) -> None:
        rows = self.shown_rows()
        if self.detail is None and rows:
            self.detail, self.detail_top = rows[self._place(rows)], 0
            for kind in ("one connection", "its subscriptions"):
                self.watch.rows.pop(kind, None)  # of another one
            self._hurry()

    def _move_detail(self, key: str) -> None:
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -self.body, "pgdn": self.body}
        steps |= {"home": -self.detail_top, "end": 1 << 30}
        self.detail_top = max(0, self.detail_top + steps.get(key, 0))

    def _move(self, key: str) -> None:
        state = self.state
        if key in ("left", "right"):
            state.shift_columns(1 if key == "right" else -1, len(self.view.columns) - 2)
            return
        rows = self.shown_rows()
        if not rows:
            return
        at, last = self._place(rows), len(rows) - 1
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -self.body, "pgdn": self.body}
        steps |= {"home": -at, "end": last}
        if key in steps:
            at = max(0, min(last, at + steps[key]))
            state.select(rows[at]["id"] if at else None, at)

    # Lines

    def shown_rows(self) -> list[Row]:
        """Return the rows of the view, filtered and in order."""
        rows, state = self.watch.rows.get(self.view.kind, []), self.state
        asked = rows, self.words, state.column, state.descending
        if self._shown_for[0] is not rows or self._shown_for[1:] != asked[1:]:
            found = self.view.found(rows, self.words)
            self._shown = self.view.sorted(found, state.column, state.descending)
            self._shown_for = asked
        return self._shown

    def _place(self, rows: list[Row]) -> int:
        """Return where the selected row is; if it has gone, where it was."""
        state = self.state
        if state.selected is None:
            return 0
        found = (at for at, row in enumerate(rows) if row["id"] == state.selected)
        return next(found, max(0, min(state.at, len(rows) - 1)))

    def lines(self, width: int, height: int, silent: float | None = None) -> list[Text]:
        """Draw `height` lines of at most `width` cells.

        `silent`: for how many seconds an answer is missing, if it is.
        """
        head = heading(self.watch, self.where, width, self.interval, self.sparks)
        head = head[: max(1, height // 3)]
        head.append(self._tabs(width))
        self.body = max(1, height - len(head) - 2)
        if self.is_helping:
            middle = self._help_lines(width)
        elif self.detail is not None:
            middle = self._detail_lines(width)
        else:
            middle = self._table_lines(width)
        room = max(0, height - len(head) - 1)
        middle = [*middle[:room], *[Text()] * (room - len(middle))]
        if silent is not None:  # these are figures of the past
            for line in (*head, *middle):
                line.stylize("dim")
        return [*head, *middle, self._foot(width, silent)][:height]

    def _tabs(self, width: int) -> Text:
        line = Text()
        for at, view in enumerate(VIEWS, 1):
            style = "bold reverse" if view is self.view else ""
            line.append(f"{at} {view.title}", style).append(" ")
        line.truncate(width)
        return line

    def _table_lines(self, width: int) -> list[Text]:
        rows, state = self.shown_rows(), self.state
        columns = self._columns(width)
        lines = [self._titles(columns, width)]
        if not rows:
            return [*lines, Text(self._empty()[:width], "dim")]
        at = self._place(rows)
        state.scroll(at, len(rows), self.body)
        for place, row in enumerate(rows[state.top : state.top + self.body], state.top):
            line = Text(" ").join(_row_cell(row.get(one.key), one, w) for one, w in columns)
            line.truncate(width, pad=place == at)
            if place == at:
                line.stylize("reverse")
            lines.append(line)
        return lines

    def _empty(self) -> str:
        if self.view.kind not in self.watch.rows:
            return "waiting for the page" if not self.trouble else ""
        if self.words and self.watch.rows[self.view.kind]:
            return "no row contains this text"
        return self.view.empty

    def _columns(self, width: int) -> list[tuple[Column, int]]:
        """Return the columns that fit, with their widths; the first one is always there.

        One of them, the one that grows, gets what is left; on a wide screen it needs more.
        """
        first, *others = self.view.columns
        wide = 2 if width >= WIDE else 1
        chosen: list[tuple[Column, int]] = []
        left, growing = width + 1, 0
        for column in (first, *others[self.state.shift :]):
            cells = column.width * (wide if column.grows else 1)
            if chosen and cells + 1 > left:
                break
            growing = len(chosen) if column.grows else growing
            chosen.append((column, cells))
            left -= cells + 1
        column, cells = chosen[growing]
        chosen[growing] = column, min(cells + left, width)
        return chosen

    def _titles(self, columns: list[tuple[Column, int]], width: int) -> Text:
        line = Text(style="bold")
        for column, cells in columns:
            is_sorted = column is self.state.column
            title = column.title[:cells]
            if is_sorted:  # the mark may take the place of the last letter
                title = f"{title[: cells - 1]}{'-' if self.state.descending else '+'}"
            line.append_text(_cell(title, column, cells, "underline" if is_sorted else ""))
            line.append(" ")
        line.truncate(width)
        return line

    def _detail_lines(self, width: int) -> list[Text]:
        assert self.detail is not None
        lines = detail_lines(self.view, self.detail, self.watch, width)
        self.detail_top = max(0, min(self.detail_top, len(lines) - self.body))
        first = self.view.columns[0]
        name = first.show(self.detail.get(first.key))
        title = Text().append(printable(f"{first.title} {name}"), "bold")
        below = len(lines) - self.detail_top - self.body
        more = f", down: {below} more lines" if below > 0 else ""
        title.append(f"  Esc: back{more}", "dim")
        title.truncate(width)
        return [title, *lines[self.detail_top : self.detail_top + self.body]]

    def _help_lines(self, width: int) -> list[Text]:
        lines = [Text("Keys", "bold")]
        for keys, what in HELP:
            line = Text().append(f"{keys:<12}", "bold").append(what)
            line.truncate(width)
            lines.append(line)
        return lines

    def _foot(self, width: int, silent: float | None) -> Text:
        if self.is_typing:
            line = Text("/", "bold").append(printable(self.words)).append("_", "reverse")
            line.truncate(width)
            return line
        facts = []
        if silent is not None:
            assert self.watch.answers is not None, "the first round precedes the screen"
            since = clock(self.watch.answers.time)
            why = f": {self.trouble}" if self.trouble else ""
            facts.append(("", f"no answer since {since} ({span(silent)}){why}", ALARM))
        if self.is_paused:
            facts.append(("", PAUSED, "bold"))
        if self.words:
            facts.append(("filter", self.words, "bold"))
        if silent is None:
            facts.append(("", self._counted(), ""))
        facts.append(("every", f"{self.interval:g}s", ""))
        line = fitted(facts, width)
        for key, what in FOOT:
            entry = Text("  ").append(key, "bold").append(f" {what}", "dim")
            if line.cell_len + entry.cell_len > width:
                break
            line.append_text(entry)
        return line

    def _counted(self) -> str:
        """Say how many rows there are; the page may list only some of them."""
        rows = self.watch.rows.get(self.view.kind, [])
        shown = len(self.shown_rows()) if self.words else len(rows)
        total = max(whole(self.watch.page(PAGES[self.view.kind]), self.view.total), len(rows))
        return f"{shown:,} of {total:,}" if shown < total else counted(shown, "row", "rows")


def _row_cell(value: object, column: Column, cells: int) -> Text:
    is_odd = value is not None and column.stands_out(value)
    return _cell(column.show(value), column, cells, ALARM if is_odd else "")


def _cell(text: str, column: Column, cells: int, style: str = "") -> Text:
    """Return one cell, cut or filled to its width."""
    cell = Text(printable(text), style)
    if cell.cell_len > cells:
        cell.truncate(cells, overflow="ellipsis")
    cell.align("left" if column.is_text else "right", cells)
    return cell
