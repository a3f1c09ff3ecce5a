"""`seriatim config`: the effective settings, where each came from, and what each is for.

table      for a person at a terminal
toml       a file that `--config` reads, with every setting explained
markdown   the reference page; docs/configuration.md is its output with nothing set
"""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from broker.settings.knobs import KNOBS, TABLES, Knob, Table
from broker.settings.resolve import DEFAULT, Effective
from broker.settings.tables import show_entry
from broker.settings.values import allowed, show

MARKDOWN_HEAD = """\
# Configuration

<!-- Written by `seriatim config --format markdown`; a test holds it equal. -->

A setting is taken from the first place that has it: a flag of `seriatim serve`, an
environment variable, the TOML file that `-c FILE` (or `SERIATIM_CONFIG`) names, its default.
Every wrong setting is told at once, also in a place that a stronger one overrides, and
nothing is started. `seriatim config` takes the same flags as `seriatim serve` and prints what
would be in force, and where each value comes from.

    max_payload = "2MiB"    # limits.max_payload in the file, below [limits]
    SERIATIM_LIMITS_MAX_PAYLOAD=2MiB
    seriatim serve --max_payload 2MiB

- **Sizes** are bytes, or a number with KiB, MiB, GiB (1024) or kB, MB, GB (1000).
- **Durations** are seconds, or numbers with ms, s, m, h, d, such as `500ms` or `1m30s`.
- **Flags** may be written `-flag`, `--flag`, `-flag=value`, `--flag=value`; `--no-debug` and
  `-D=false` switch off what a file or a variable switches on.
- **Variables** that are empty count as not set. What Kubernetes sets for a service called
  `seriatim` (`SERIATIM_PORT=tcp://...`) is not taken for a setting; any other unknown
  `SERIATIM_` variable is an error, as an unknown key of the file is.
"""
SECTION_TITLES = {
    "": "The broker",
    "journal": "Journal: `[journal]`",
    "limits": "Limits: `[limits]`",
    "sequencer": "Sequencer: `[sequencer]`",
    "staging": "Staging: `[staging]`",
}


def as_toml(effective: Effective) -> str:
    """A TOML file of the effective settings, each with its reason and its origin."""
    lines = ["# The effective settings of a Seriatim broker."]
    section = ""
    for knob in KNOBS.values():
        if knob.section != section:
            section = knob.section
            lines += ["", f"[{section}]"]
        origin = effective.origins[knob.path]
        lines += ["", *_comment(f"{_full_about(knob)} Allowed: {allowed(knob)}. From: {origin}.")]
        lines.append(f"{knob.name} = {_toml_value(knob, value_of(effective, knob))}")
    for path, table in TABLES.items():
        for entry in getattr(effective.settings, path):
            lines += ["", f"# From: {effective.origins[path]}.", f"[[{table.key}]]"]
            lines += [
                f"{name} = {_toml_value(knob, getattr(entry, name))}"
                for name, knob in table.knobs.items()
            ]
    return "\n".join(lines) + "\n"


def as_markdown(effective: Effective) -> str:
    """The reference page; with a list of what is set, when anything is."""
    lines = [MARKDOWN_HEAD]
    changed = [row for row in rows(effective) if row[2] != DEFAULT]
    if changed:
        lines += ["## What is set here", "", "| setting | value | from |", "|---|---|---|"]
        lines += [f"| `{name}` | `{value}` | `{origin}` |" for name, value, origin, _ in changed]
        lines.append("")
    section = None
    for knob in KNOBS.values():
        if knob.section != section:
            section = knob.section
            lines += [f"## {SECTION_TITLES[section]}", ""]
        lines += _markdown_entry(knob)
    for table in TABLES.values():
        lines += _markdown_table(table)
    return "\n".join(lines) + "\n"


def print_table(effective: Effective) -> None:
    """The settings for a terminal; a value that is not a default stands out."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title, ratio in (("setting", None), ("value", None), ("from", None), ("about", 1)):
        table.add_column(title, ratio=ratio, overflow="fold")
    for name, value, origin, about in rows(effective):
        style = "" if origin == DEFAULT else "bold green"
        table.add_row(Text(name), Text(value, style), Text(origin, style or "dim"), Text(about))
    console = Console()
    if not console.is_terminal:
        console.width = 160  # piped into a pager or a file: do not squeeze it
    console.print(table)


def rows(effective: Effective) -> Iterator[tuple[str, str, str, str]]:
    """Each setting as texts: path, value, origin and explanation."""
    for knob in KNOBS.values():
        value = show(knob, value_of(effective, knob))
        yield knob.path, value or '""', effective.origins[knob.path], _full_about(knob)
    for path, table in TABLES.items():
        shown = " ".join(show_entry(table, one) for one in getattr(effective.settings, path))
        yield path, shown or "none", effective.origins[path], table.about


def value_of(effective: Effective, knob: Knob) -> Any:
    """The effective value of one knob."""
    holder = effective.settings
    return getattr(getattr(holder, knob.section) if knob.section else holder, knob.name)


def _full_about(knob: Knob) -> str:
    return f"{knob.about} ({knob.zero[0].upper()}{knob.zero[1:]}.)" if knob.zero else knob.about


def _markdown_entry(knob: Knob) -> list[str]:
    default = show(knob, knob.default) or "empty"
    facts = [
        f"- Flag: {', '.join(f'`{flag}`' for flag in knob.flags)}",
        f"- Variable: `{knob.variable}`",
        f"- Default: `{default}`; allowed: {allowed(knob)}",
    ]
    return [f"### `{knob.path}`", "", _full_about(knob), "", *facts, ""]


def _markdown_table(table: Table) -> list[str]:
    lines = [
        *(f"## {table.title}: `[[{table.key}]]`", "", table.about, ""),
        f"- Flag: `{table.flag} {table.form}`",
        f"- Variable: `{table.variable}`, several with blanks between them",
        f"- File: one `[[{table.key}]]` table each, with",
        *("", "| key | default | allowed | |", "|---|---|---|---|"),
    ]
    for name, knob in table.knobs.items():
        if knob.default is dataclasses.MISSING:
            default = "none"
        elif knob.path == "listener.frame":
            default = "the broker's `frame`"
        else:
            default = f"`{show(knob, knob.default) or 'empty'}`"
        lines.append(f"| `{name}` | {default} | {allowed(knob)} | {_full_about(knob)} |")
    return [*lines, ""]


def _comment(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="# ")


def _toml_value(knob: Knob, value: Any) -> str:
    if knob.kind in ("count", "port", "flag"):
        return show(knob, value)
    if knob.kind == "list":
        return json.dumps(list(value), ensure_ascii=False)
    return json.dumps(show(knob, value), ensure_ascii=False)
