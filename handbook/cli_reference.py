"""Writes docs/commands.md: every command of `seriatim`, from what typer is told about it."""

import re
from collections.abc import Iterator
from typing import Any

from handbook.docstrings import code_block, table
from seriatim.cli.commands import command_tree

HEAD = """\
# Commands

<!-- Written by `python -m handbook`; a test holds it equal. -->

Every command of `seriatim`, with its arguments and options. `seriatim COMMAND --help` shows the
same. The exit status is 0 if all went well, 1 if something failed, 64 if the arguments are wrong,
130 after Ctrl-C; where a command has another one, it says so.
"""
SHARED = "The broker"  # the group of options by which commands reach a broker
MARKUP = re.compile(r"\[/?(?:bold|cyan|dim|italic)\]")
# Their options are those of the job itself, which needs Spark to be listed.
OF_SPARK = (
    "The options of the job are in [spark-jobs.md](spark-jobs.md), and `--help` shows them.\n"
)
OF_SETTINGS = "Every setting is a flag, too: [configuration.md](configuration.md).\n"


def escaped(text: str) -> str:
    """Return a text of the command's help as Markdown, outside of code."""
    code = re.sub(r"\[bold\](.+?)\[/bold\]", r"`\1`", text)
    code = MARKUP.sub("", code)
    parts = re.split(r"(`[^`]+`)", code)
    parts[::2] = [re.sub(r"([<>*_])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def help_of(command: Any) -> str:
    """Return the help of a command: paragraphs, and its examples as code."""
    found, code = [], False
    for paragraph in (command.help or "").split("\n\n"):
        lines = paragraph.strip("\n")
        if re.fullmatch(r"\[bold\]Examples?\[/bold\]", lines.strip()):
            code = True
        elif code or "[cyan]" in lines:
            found.append(code_block(_code(lines), "sh"))
        else:
            found.append(escaped(lines))
    return "\n\n".join(found)


def _code(lines: str) -> str:
    """Return the lines of an example. A remark is a comment: behind its command, or above it."""
    found: list[str] = []
    for line in lines.split("\n"):
        text = (
            MARKUP.sub("", re.sub(r"\[/cyan\]( +)(?=\S)", r"\1# ", line))
            .replace("\\[", "[")
            .strip()
        )
        if "[cyan]" in line:
            found.append(text)
        else:  # it goes on below its command, where it would seem to belong to the next one
            command, _, begun = found.pop().partition("# ")
            found += [f"# {begun} {text}".replace("#  ", "# "), command.rstrip()]
    return "\n".join(found)


def taken(metavar: str) -> str:
    """Return the name of a value; forges and the site disagree about a bar within code."""
    return f"`{metavar.replace('|', ' or ')}`"


def flags_of(option: Any) -> str:
    """Return the names of an option, and what it takes."""
    names = [f"`{name}`" for name in (*option.opts, *option.secondary_opts)]
    value = (option.metavar or "").strip()
    if not value and not option.is_flag:
        value = option.type.name.upper()
    return ", ".join(names) + (f" {taken(value)}" if value else "")


def said_of(option: Any) -> str:
    """Return what an option is for, its default and its variable."""
    said = escaped(option.help or "").rstrip(".")
    default = option.default
    if option.show_default is not False and isinstance(default, str | int | float):
        said += "" if default in (False, "") else f" (default: `{default}`)"
    return said + (f" (variable: `{option.envvar}`)" if option.envvar else "")


def option_table(options: list[Any]) -> str:
    rows = [(flags_of(one), said_of(one)) for one in options]
    return table(rows, ("option", "")) + "\n"


def shown_options(command: Any) -> list[Any]:
    """The options that its help shows, and that are its own."""
    return [
        one
        for one in command.params
        if one.param_type_name == "option" and not getattr(one, "hidden", False)
        if one.name not in ("help", "install_completion", "show_completion")
    ]


def panel_of(option: Any) -> str:
    return getattr(option, "rich_help_panel", None) or ""


def child_of(group: Any, context: Any, name: str) -> tuple[Any, Any]:
    """Return a command of a group, and its context."""
    child = group.get_command(context, name)
    return child, type(context)(child, parent=context, info_name=name)


def section(command: Any, context: Any, level: int) -> Iterator[str]:
    """Yield the section of a command, and those of its commands."""
    path = context.command_path
    yield f"{'#' * level} `{path}`\n"
    yield f"{help_of(command)}\n"
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from section(*child_of(command, context, name), level + 1)
        return
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield code_block(usage, "text") + "\n"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if arguments:
        named = [(taken(one.metavar or one.name.upper()), escaped(one.help)) for one in arguments]
        yield table(named, ("argument", "")) + "\n"
    options = shown_options(command)
    if path == "seriatim config":
        options = [
            one for one in options if one.name in ("config", "format", "show_all", "from_nats")
        ]
    # Of `serve` and `doctor`, what this heading has are settings of the broker itself.
    connects = any("--server" in one.opts for one in options)
    own = [one for one in options if not connects or panel_of(one) != SHARED]
    if own:
        yield option_table(own)
    if len(own) < len(options):
        yield "[The options for the broker](#the-broker) come with it.\n"
    if path in ("seriatim serve", "seriatim config", "seriatim doctor"):
        yield OF_SETTINGS
    if path.startswith("seriatim spark "):
        yield OF_SPARK


def page() -> str:
    """Return the page about the commands."""
    tree = command_tree()
    context = tree.make_context("seriatim", [], resilient_parsing=True)
    parts = [HEAD]
    for name in tree.list_commands(context):
        parts += section(*child_of(tree, context, name), 2)
    shared = {
        option.opts[0]: option
        for option in shown_options(tree.get_command(context, "pub"))
        if panel_of(option) == SHARED
    }
    parts.append(f"## {SHARED}\n\nCommands that connect to a broker share these options:\n")
    parts.append(option_table(list(shared.values())))
    return "\n".join(parts)
