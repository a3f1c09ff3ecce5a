"""Prints foreign texts on a terminal, so that no character controls it."""

import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

# JSON must escape characters below a blank, but not these: DEL, and C1, whose U+009B is another
# form of ESC [.
_JSON_LEAVES: Final = re.compile("[\x7f-\x9f]")


def printable(text: str) -> str:
    """`text` in one line, with escapes for unprintable characters."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def printable_lines(text: str) -> str:
    """`text` in its lines, with escapes for the other unprintable characters."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """`text`, which is JSON, with escapes for the control characters that JSON leaves."""
    return _JSON_LEAVES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Container[int] = ()
) -> None:
    """Print a table of texts; the columns in `numbers`, counted from 0, are set to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for at, title in enumerate(titles):
        table.add_column(title, overflow="fold", justify="right" if at in numbers else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 1000  # a pager or a file must not narrow it
    console.print(table)
