"""`seriatim man`: the manual page, made from the commands as they are declared.

The page in the repository, `seriatim/cli/seriatim.1`, is its output; a wheel installs it.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import typer

DATE: Final = "2026-11-28"  # of the page; change it with a release
SECTION: Final = 1
# Characters that roff would change: hyphens, and what typographers have other signs for.
ROFF: Final = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}

_MARKUP: Final = re.compile(r"\[(/?)(bold|cyan)\]")
_CODE: Final = re.compile(r"`([^`\n]+)`")

AFTER: Final = r""".SH EXIT STATUS
0 if the command did what it was asked for, 64 for wrong arguments, 130 after an interrupt, and
otherwise 1. Commands that judge something say what else they return.
.SH ENVIRONMENT
.TP
.B SERIATIM_URL
The broker that commands connect to.
.TP
.B NATS_CONTEXT
The context that they use.
.TP
.B SERIATIM_*
A setting of the broker, such as SERIATIM_PORT: see
.BR "seriatim config" .
.TP
.BR NO_COLOR ", " FORCE_COLOR ", " CLICOLOR
Without colours, or with colours wherever the output goes.
.SH FILES
.TP
.I $XDG_CONFIG_HOME/nats/context/
The contexts, by default in
.IR \(ti/.config .
.TP
.I $XDG_STATE_HOME/seriatim/
The journal, by default in
.IR \(ti/.local/state ;
of root
.IR /var/lib/seriatim .
.SH SEE ALSO
.BR nats (1),
and the pages of Seriatim's folder
.IR docs .
"""


def man(context: typer.Context) -> None:
    """Print the manual page. A wheel installs it, too, as share/man/man1/seriatim.1.

    [bold]Examples[/bold]

    [cyan]seriatim man | man -l -[/cyan]
    """
    print(man_page(context.find_root().command), end="")


def man_page(root: Any) -> str:
    """Return the page of this command, in the macros of man(7)."""
    from broker.version import VERSION

    shared = [one for one in root.commands["pub"].params if _is_of_broker(one)]
    lines = [
        f'.TH SERIATIM {SECTION} {DATE} "Seriatim {VERSION}" "User Commands"',
        ".SH NAME",
        rf"seriatim \- {_text(_first_sentence(root.help))}",
        ".SH SYNOPSIS",
        ".B seriatim",
        ".I COMMAND",
        r"[\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        *_description(root.help),
        ".SH COMMANDS",
    ]
    for names, command in _commands(root):
        lines += _command(names, command, shared)
    lines += [".SH BROKER OPTIONS", "Commands that connect to a broker have these options."]
    for option in shared:
        lines += _option(option)
    return "\n".join(lines) + "\n" + AFTER


def _commands(group: Any, before: str = "seriatim") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if not command.hidden:
            yield f"{before} {name}", command
            if hasattr(command, "commands"):
                yield from _commands(command, f"{before} {name}")


def _command(names: str, command: Any, shared: list[Any]) -> Iterator[str]:
    yield f".SS {_text(names)}"
    if not hasattr(command, "commands"):
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        usage = " ".join([r"[\fIOPTIONS\fR]", *(rf"\fI{_metavar(one)}\fR" for one in arguments)])
        yield rf"\fB{_text(names)}\fR {usage}"
        yield ".PP"
    yield from _description(command.help)
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    common = {(one.name, one.help) for one in shared}
    own = [one for one in options if (one.name, one.help) not in common]
    for one in own:
        if one.name != "help":
            yield from _option(one)
    if len(own) < len(options):
        yield ".PP"
        yield "Also the options under BROKER OPTIONS."


def _option(option: Any) -> Iterator[str]:
    names = ", ".join(rf"\fB{_text(one)}\fR" for one in (*option.opts, *option.secondary_opts))
    value = _metavar(option)
    yield ".TP"
    yield f"{names} \\fI{value}\\fR" if value else names
    notes = [option.help or ""]
    if isinstance(option.show_default, str):
        notes.append(f"Default: {option.show_default}.")
    elif option.show_default and option.default not in (None, "", False, (), []):
        notes.append(f"Default: {option.default}.")
    if option.envvar:
        notes.append(f"Environment: {option.envvar}.")
    yield from _flowing(" ".join(notes).split("\n"))


def _is_of_broker(option: Any) -> bool:
    from seriatim.settings.shared_options import PANEL

    return getattr(option, "rich_help_panel", None) == PANEL


def _metavar(parameter: Any) -> str:
    return _text((parameter.metavar or parameter.name.upper()).strip())


def _description(help_text: str | None) -> Iterator[str]:
    """Lines of a help: paragraphs that flow, headings, and examples as they are."""
    first = True
    for block in re.split(r"\n\s*\n", (help_text or "").strip("\n")):
        lines = block.split("\n")
        if not first:
            yield ".PP"
        if "[cyan]" in block:
            yield from (".EX", *(_marked(one) for one in lines), ".EE")
        else:
            yield from _flowing(lines)
        first = False


def _flowing(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.strip():
            yield _marked(line.strip())


def _first_sentence(text: str) -> str:
    text = text.partition("\n")[0].strip().rstrip(".")
    return text[:1].lower() + text[1:]


def _marked(line: str) -> str:
    """A line with its bold parts, and the code between backquotes, in roff."""
    done, at = [], 0
    for found in re.finditer(f"{_MARKUP.pattern}|{_CODE.pattern}", line):
        done.append(_text(line[at : found.start()]))
        if found[3] is not None:
            done.append(rf"\fB{_text(found[3])}\fR")
        elif found[2] == "bold":
            done.append(r"\fR" if found[1] else r"\fB")
        at = found.end()
    whole = "".join(done) + _text(line[at:])
    return rf"\&{whole}" if whole.startswith((".", r"\(aq")) else whole


def _text(text: str) -> str:
    return "".join(ROFF.get(one, one) for one in text.replace("\\[", "["))
