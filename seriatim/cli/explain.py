"""`seriatim config`: the effective settings, where each comes from, and what each is for.

table      for a person at a terminal
toml       a file that `--config` reads, with every setting explained
markdown   the reference page, of all settings; docs/configuration.md is its output with defaults

The first two have the settings that people use, and all that are set; `--all` adds the rest.
"""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from broker.settings.catalog import LIST_KINDS, SETTINGS, TABLES, BrokerSetting, SettingsTable
from broker.settings.resolve import DEFAULT, Effective
from broker.settings.tables import show_entry
from seriatim.cli import explain_users
from seriatim.cli.printable import printable_json

MARKDOWN_HEAD = """\
# Configuration

<!-- Written by `seriatim config --format markdown`; a test holds it equal. -->

Everything has a default: `seriatim serve` needs no setting. `seriatim check broker.toml` checks a
file of settings, and says what is insecure.
"""
MARKDOWN_SOURCES = """\
## Where a setting comes from

The broker takes a setting from the first place that has it: a flag of `seriatim serve`, an
environment variable, the TOML file that `-c FILE` (or `SERIATIM_CONFIG`) names, its default.
All wrong settings are reported at once, even those that another place overrides, and the
broker does not start. `seriatim config` takes the same flags as `seriatim serve`. It prints
the effective settings, and where each value comes from: those that people use, and all that are
set; `--all` adds the rest. `seriatim serve --help-all` has the flags of all. `seriatim config
--from nats.conf` translates a configuration of nats-server ([from-nats.md](from-nats.md)).

    max_payload = "2MiB"    # limits.max_payload in the file, below [limits]
    SERIATIM_LIMITS_MAX_PAYLOAD=2MiB
    seriatim serve --max_payload 2MiB

- **Sizes** are bytes, or a number with KiB, MiB, GiB, TiB (1024) or kB, MB, GB, TB (1000).
- **Durations** are seconds, or numbers with ms, s, m, h, d, w, such as `500ms` or `1m30s`.
- **Flags** may be written `-flag`, `--flag`, `-flag=value`, `--flag=value`; `--no-debug` and
  `-D=false` switch off what a file or a variable switches on. Each key is also a flag:
  `--journal.window_bytes`, `--journal_window_bytes`, and `--log_file` for a key that only one
  setting has.
- **Variables** that are empty count as not set. Kubernetes sets variables such as
  `SERIATIM_PORT=tcp://...` for services called `seriatim` or `seriatim-NAME`: they are ignored.
  Any other unknown `SERIATIM_` variable is ignored with a warning. An unknown key in the file is
  an error, and so is one that is fixed now.
"""
# What most people set first, and when.
FIRST_SETTINGS = {
    "host": "only this machine, or one network",
    "port": "another broker has 4222",
    "frame": "your clients shall get payloads as they were published",
    "store_dir": "the journal has a disk of its own",
    "journal.sync": "a power cut may lose nothing",
    "journal.retain_bytes": "the disk is smaller, or you need more of the past",
    "journal.retain_age": "messages must go after some days",
    "http_port": "you want metrics and health checks",
    "authorization.users_file": "others can reach the port",
    "tls.cert_file": "the network is not yours alone; with `tls.key_file`",
    "limits.max_payload": "messages are larger than 1 MiB",
    "sequencer.exclude": "replies need no number: `_INBOX.>`",
}
SECTION_TITLES = {
    "": "The broker",
    "authorization": "Authorization: `[authorization]`",
    "cluster": "Cluster: `[cluster]`",
    "journal": "Journal: `[journal]`",
    "limits": "Limits: `[limits]`",
    "sequencer": "Sequencer: `[sequencer]`",
    "staging": "Staging: `[staging]`",
    "streams": "Streams: `[streams]`",
    "tls": "TLS: `[tls]`",
    "websocket": "WebSocket: `[websocket]`",
}


def listed(effective: Effective, show_all: bool = False) -> list[BrokerSetting]:
    """The settings to show: those that are common or set, or all."""
    return [
        setting
        for path, setting in SETTINGS.items()
        if show_all or setting.common or effective.origins[path] != DEFAULT
    ]


def as_toml(effective: Effective, show_all: bool = False) -> str:
    """A TOML file of the effective settings, each with its reason and its origin."""
    lines = ["# The effective settings of a Seriatim broker."]
    chosen = listed(effective, show_all)
    if left_out := _left_out(chosen):
        lines.append(f"# {left_out}")
    section = ""
    for setting in chosen:
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"]
        origin = effective.origins[setting.path]
        lines += [
            "",
            *_comment(f"{_full_about(setting)} Allowed: {setting.allowed()}. From: {origin}."),
        ]
        lines.append(f"{setting.name} = {toml_value(setting, value_of(effective, setting))}")
    for path, table in TABLES.items():
        for entry in getattr(effective.settings, path):
            lines += ["", f"# From: {effective.origins[path]}.", f"[[{table.key}]]"]
            lines += [
                f"{name} = {toml_value(setting, getattr(entry, name))}"
                for name, setting in table.settings.items()
            ]
    lines += explain_users.as_comments(effective)
    return "\n".join(lines) + "\n"


def as_markdown(effective: Effective) -> str:
    """The reference page, preceded by a list of what is set, if anything is."""
    lines = [MARKDOWN_HEAD, *_markdown_first(), MARKDOWN_SOURCES]
    changed = [row for row in rows(effective, True) if row[2] != DEFAULT]
    if changed:
        lines += ["## What is set here", "", "| setting | value | from |", "|---|---|---|"]
        lines += [f"| `{name}` | `{value}` | `{origin}` |" for name, value, origin, _ in changed]
        lines.append("")
    lines += _markdown_index()
    section = None
    for setting in SETTINGS.values():
        if setting.section != section:
            section = setting.section
            lines += [f"## {SECTION_TITLES[section]}", ""]
        lines += _markdown_entry(setting)
    for table in TABLES.values():
        lines += _markdown_table(table)
    lines += explain_users.as_markdown()[:-1]
    return "\n".join(lines) + "\n"


def _left_out(chosen: list[BrokerSetting]) -> str:
    """Say how many settings are not shown; empty if all are."""
    count = len(SETTINGS) - len(chosen)
    return f"{count} more settings have their defaults: --all shows them." if count else ""


def print_table(effective: Effective, show_all: bool = False) -> None:
    """The settings for a terminal; values that are not defaults are highlighted."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title, ratio in (("setting", None), ("value", None), ("from", None), ("about", 1)):
        table.add_column(title, ratio=ratio, overflow="fold")
    for name, value, origin, about in rows(effective, show_all):
        style = "" if origin == DEFAULT else "bold green"
        table.add_row(Text(name), Text(value, style), Text(origin, style or "dim"), Text(about))
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a pager or a file must not narrow it
    console.print(table)
    if left_out := _left_out(listed(effective, show_all)):
        console.print(left_out)


def rows(effective: Effective, show_all: bool = False) -> Iterator[tuple[str, str, str, str]]:
    """Each setting as texts: path, value, origin and explanation."""
    for setting in listed(effective, show_all):
        value = setting.show(value_of(effective, setting))
        yield setting.path, value or '""', effective.origins[setting.path], _full_about(setting)
    for path, table in TABLES.items():
        shown = " ".join(show_entry(table, one) for one in getattr(effective.settings, path))
        yield path, shown or "none", effective.origins[path], table.about
    yield from explain_users.rows(effective)


def value_of(effective: Effective, setting: BrokerSetting) -> Any:
    """The effective value of one setting."""
    holder = effective.settings
    return getattr(getattr(holder, setting.section) if setting.section else holder, setting.name)


def _full_about(setting: BrokerSetting) -> str:
    return (
        f"{setting.about} ({setting.zero[0].upper()}{setting.zero[1:]}.)"
        if setting.zero
        else setting.about
    )


def _markdown_first() -> list[str]:
    """The settings to begin with, each with the reason to set it."""
    lines = ["## Twelve to begin with", "", "| set | when | flag | default |", "|---|---|---|---|"]
    for path, when in FIRST_SETTINGS.items():
        setting = SETTINGS[path]
        default = setting.show(setting.default) or "empty"
        lines.append(f"| {_link(setting)} | {when} | `{setting.flag}` | `{default}` |")
    return [*lines, ""]


def _link(setting: BrokerSetting) -> str:
    return f"[`{setting.path}`](#{setting.path.replace('.', '')})"


def _markdown_index() -> list[str]:
    """The settings that people use, each with a link to what the page says of it."""
    lines = ["## The settings that people use", ""]
    lines += ["`seriatim config` shows these; `seriatim config --all` shows all.", ""]
    lines += ["| setting | flag | default | |", "|---|---|---|---|"]
    for setting in SETTINGS.values():
        if setting.common:
            default = setting.show(setting.default) or "empty"
            about = setting.about.partition(". ")[0].rstrip(".")
            lines.append(f"| {_link(setting)} | `{setting.flag}` | `{default}` | {about} |")
    return [*lines, ""]


def _markdown_entry(setting: BrokerSetting) -> list[str]:
    default = setting.show(setting.default) or "empty"
    facts = [
        f"- Flag: {', '.join(f'`{flag}`' for flag in setting.flags)}",
        f"- Variable: `{setting.variable}`",
        f"- Default: `{default}`; allowed: {setting.allowed()}",
        f"- A change takes effect {'at SIGHUP' if setting.reload else 'at a restart'}",
    ]
    return [f"### `{setting.path}`", "", _full_about(setting), "", *facts, ""]


def _markdown_table(table: SettingsTable) -> list[str]:
    lines = [
        *(f"## {table.title}: `[[{table.key}]]`", "", table.about, ""),
        f"- Flag: `{table.flag} {table.form}`",
        f"- Variable: `{table.variable}`, several separated by spaces",
        f"- File: one `[[{table.key}]]` table each, with",
        *("", "| key | default | allowed | |", "|---|---|---|---|"),
    ]
    for name, setting in table.settings.items():
        if setting.default is dataclasses.MISSING:
            default = "none"
        elif setting.path == "listener.frame":
            default = "the broker's `frame`"
        else:
            default = f"`{setting.show(setting.default) or 'empty'}`"
        lines.append(f"| `{name}` | {default} | {setting.allowed()} | {_full_about(setting)} |")
    return [*lines, ""]


def _comment(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="# ")


def toml_value(setting: BrokerSetting, value: Any) -> str:
    """A value of a setting, as TOML."""
    if setting.kind in ("count", "port", "flag"):
        return setting.show(value)
    if setting.kind in LIST_KINDS:
        return printable_json(json.dumps(list(value), ensure_ascii=False))
    return printable_json(json.dumps(setting.show(value), ensure_ascii=False))
