"""Makes Markdown of a docstring: its paragraphs, its examples, and its lists of names.

An indented paragraph is a program. Lines such as `start     the first number wanted` are a list of
names; what goes on is indented up to the text of the line before.
"""

import inspect
import re
import textwrap
from collections.abc import Iterable

NAMED = re.compile(r"(?P<name>[\w`*][\w`*, ]*?) {2,}(?P<said>\S.*)")


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def code_block(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def table(rows: Iterable[tuple[str, str]], heads: tuple[str, str] = ("", "")) -> str:
    """Return a table of two columns, whose cells are Markdown."""
    lines = [f"| {heads[0]} | {heads[1]} |", "|---|---|"]
    lines += [f"| {first} | {cell(second)} |" for first, second in rows]
    return "\n".join(lines)


def paragraph(lines: list[str]) -> str:
    """Return one paragraph of a docstring as Markdown."""
    if lines[0].startswith("    "):
        return code_block(textwrap.dedent("\n".join(lines)), "python")
    if not NAMED.fullmatch(lines[0]):
        return "\n".join(lines)
    rows: list[tuple[str, str]] = []
    for line in lines:
        if named := NAMED.fullmatch(line):
            rows.append((named["name"], named["said"]))
        else:
            name, said = rows[-1]
            rows[-1] = (name, f"{said} {line.strip()}")
    return table((", ".join(code(one) for one in split(name)), said) for name, said in rows)


def split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def code(name: str) -> str:
    return name if name.startswith("`") else f"`{name}`"


def as_markdown(docstring: str) -> str:
    """Return a docstring as Markdown."""
    found: list[list[str]] = [[]]
    for line in inspect.cleandoc(docstring).splitlines():
        if line:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    # An empty line within a program does not end it.
    merged: list[list[str]] = []
    for lines in filter(None, found):
        if merged and merged[-1][0].startswith("    ") and lines[0].startswith("    "):
            merged[-1] += ["", *lines]
        else:
            merged.append(lines)
    return "\n\n".join(paragraph(lines) for lines in merged)
