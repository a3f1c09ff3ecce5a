"""Writes JSON in pieces while it is sent: a page of any length is never in memory as a whole.

A value that is an iterator becomes a list, with one line for each entry; entries may contain
iterators too. Memory: one piece.
"""

import json
from collections.abc import Iterator
from typing import Any

PIECE = 1 << 16


def pieces(page: dict[str, Any]) -> Iterator[bytes]:
    """Yield the page in pieces of about 64 KiB."""
    waiting: list[str] = []
    size = 0
    for text in _texts(page, 2):
        waiting.append(text)
        size += len(text)
        if size >= PIECE:
            yield "".join(waiting).encode()
            waiting.clear()
            size = 0
    yield "".join([*waiting, "\n"]).encode()


def _texts(page: dict[str, Any], indent: int | None) -> Iterator[str]:
    lists = {name: value for name, value in page.items() if isinstance(value, Iterator)}
    rest = {name: value for name, value in page.items() if name not in lists}
    text = json.dumps(rest, indent=indent)
    if not lists:
        yield text
        return
    yield text[:-1].rstrip("\n")
    separator = ",\n  " if indent else ", "
    for name, items in lists.items():
        yield f"{separator if rest else ''}{json.dumps(name)}: ["
        between = "\n"
        for item in items:
            yield between
            between = ",\n"
            if isinstance(item, dict):
                yield from _texts(item, None)
            else:
                yield json.dumps(item)
        yield "]"
    yield "\n}" if indent else "}"
