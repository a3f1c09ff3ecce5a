"""The flags of `serve` and `config`, in every form nats-server accepts.

`-p 4222`, `--port 4222`, `-port=4222`, `--port=4222`, `-DV`, `-D=false`, `-sd DIR`: `normalise`
turns each into the one form that the command's parser knows. It collects errors, so that an
invalid flag is reported together with every other invalid setting. nats-server's flags for
features that do not exist here are refused by name: a broker that ignored one would not do what
its owner expects.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from broker.settings.catalog import (
    FEEDS,
    FIXED,
    LIST_KINDS,
    LISTENERS,
    SETTINGS,
    TABLES,
    BrokerSetting,
    fixed_words,
)
from seriatim.settings.checked import FLAG_WORDS, closest

if TYPE_CHECKING:
    import inspect

_CLUSTER = "members find each other by etcd; use --cluster NAME --etcd ENDPOINTS"
_ADVERTISE = "use --advertise HOST:PORT, in a cluster"
_PLAIN = "this does not exist here yet; leave it out"

# nats-server's flags that do not exist here: the reason given, by name. True: it takes a value.
REFUSED: dict[str, tuple[str, bool]] = {
    **dict.fromkeys(("routes", "connect_retries"), (_CLUSTER, True)),
    "cluster_listen": ("use --cluster_host and --cluster_port", True),
    "no_advertise": (_ADVERTISE, False),
    **dict.fromkeys(("s", "syslog"), ("log to standard error or to a file with -l", False)),
    **dict.fromkeys(("r", "remote_syslog"), ("log to standard error or to a file with -l", True)),
    **dict.fromkeys(("T", "logtime", "logtime_utc"), ("every line has its local time", False)),
    **dict.fromkeys(("VV", "DVV"), ("use -V, or -DV: there is no system account", False)),
    **dict.fromkeys(("profile", "ports_file_dir", "log_size_limit"), (_PLAIN, True)),
    "max_traced_msg_len": (_PLAIN, True),
    "t": ("use `seriatim check FILE`, or `seriatim config`, which prints the settings", False),
    "help_tls": ("see `seriatim serve --help` and docs/configuration.md", False),
}
TOGETHER = {"DV": ("D", "V")}
PANELS = {
    "": "The broker",
    "authorization": "Authorization",
    "cluster": "Cluster",
    "journal": "Journal",
    "limits": "Limits",
    "sequencer": "Sequencer",
    "staging": "Staging",
    "streams": "Streams",
    "tls": "TLS",
    "websocket": "WebSocket",
}
TABLE_WORDS = {LISTENERS.path: "ADDRESS", FEEDS.path: "GROUP"}
TABLE_HELP = {
    LISTENERS.path: "One more address to listen on, as HOST:PORT or HOST:PORT,frame=MODE"
    " (repeatable)",
    FEEDS.path: "A multicast group to send everything to, as GROUP:PORT or"
    " GROUP:PORT,codec=binary (repeatable)",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: its long name, and whether a value follows it."""

    long: str
    takes_value: bool


# Flags of commands that take settings.
HELP = {
    "h": Flag("--help", False),
    "help": Flag("--help", False),
    "help_all": Flag("--help-all", False),
}
CONFIG = {"c": Flag("--config", True), "config": Flag("--config", True)}


def _known(own: dict[str, Flag]) -> dict[str, Flag]:
    """Every accepted name of a flag.

    A setting has its own flags, of which many are nats-server's. Its path is a flag, too,
    `--journal.window_bytes` or `--journal_window_bytes`, and so is its key if no other setting
    has the same.
    """
    known = dict(own)
    for table in TABLES.values():
        known[table.flag.lstrip("-")] = Flag(table.flag, True)
    for setting in SETTINGS.values():
        for written in setting.flags:
            known[written.lstrip("-")] = _flag_of(setting)
    for path, setting in SETTINGS.items():
        known.setdefault(path, _flag_of(setting))
        known.setdefault(setting.parameter, _flag_of(setting))
    for setting in SETTINGS.values():
        switched_off = setting.name.removeprefix("no_")
        if len(_settings_of_key(setting.name)) == 1 and switched_off not in known:
            known[setting.name] = _flag_of(setting)
    return known


def _flag_of(setting: BrokerSetting) -> Flag:
    return Flag(setting.flag, setting.kind != "flag")


@functools.cache
def _settings_of_key(key: str) -> list[BrokerSetting]:
    """The settings whose key in their table of the file is `key`."""
    return [setting for setting in SETTINGS.values() if setting.name == key]


@dataclass(slots=True)
class Arguments:
    """The normalised arguments, and problems with those that could not be normalised."""

    arguments: list[str]
    problems: list[str]


def normalise(argv: list[str], own: dict[str, Flag]) -> Arguments:
    """Bring every flag into the form `--name=value`. `own` are the command's own flags."""
    known = _known(own)
    done = Arguments([], [])
    left = _split_together(argv)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            done.problems.append(f'"{word}": is not a flag; only flags are accepted here')
            continue
        written, equals, text = word.partition("=")
        name = written.lstrip("-")
        name = name if name in known or name in REFUSED else name.replace("-", "_")
        value = text if equals else None
        if name in REFUSED:
            reason, takes_value = REFUSED[name]
            done.problems.append(f"{written}: {reason}")
            _skip_value(left, takes_value and value is None)
        elif name.startswith("no_") and name[3:] in known and value is None:
            done.arguments.append(f"--no-{known[name[3:]].long[2:]}")
        elif name not in known:
            done.problems.append(f"{written}: {_unknown(name, known)}")
            _skip_value(left, value is None)
        elif known[name].takes_value:
            _with_value(done, known, written, known[name], value, left)
        else:
            _switch(done, written, known[name], value)
    return done


def _skip_value(left: list[str], may_follow: bool) -> None:
    """Skip the value of a refused flag, which would cause one more error."""
    if may_follow and left and not left[0].startswith("-"):
        left.pop(0)


def _split_together(argv: list[str]) -> list[str]:
    words: list[str] = []
    for word in argv:
        name, equals, value = word.partition("=")
        flags = TOGETHER.get(name.lstrip("-")) if word.startswith("-") else None
        words += [f"-{flag}{equals}{value}" for flag in flags] if flags else [word]
    return words


def _with_value(
    done: Arguments,
    known: dict[str, Flag],
    written: str,
    flag: Flag,
    value: str | None,
    left: list[str],
) -> None:
    if value is None and left and not _is_flag(left[0], known):
        value = left.pop(0)
    if value is None:
        done.problems.append(f"{written}: needs a value")
    else:
        done.arguments.append(f"{flag.long}={value}")


def _is_flag(word: str, known: dict[str, Flag]) -> bool:
    """True if `word` is a flag, not the value of the flag before it (as -1 is)."""
    name = word.partition("=")[0].lstrip("-")
    return word.startswith("-") and (name in known or name in REFUSED)


def _switch(done: Arguments, written: str, flag: Flag, value: str | None) -> None:
    if value is not None and value.lower() not in FLAG_WORDS:
        done.problems.append(f'{written}: "{value}" is neither true nor false')
    elif value is None or FLAG_WORDS[value.lower()]:
        done.arguments.append(flag.long)
    else:
        done.arguments.append(f"--no-{flag.long[2:]}")


def _unknown(name: str, known: dict[str, Flag]) -> str:
    for path in FIXED:
        if name in (path, path.replace(".", "_"), path.rpartition(".")[2]):
            return fixed_words(path)
    same_key = [setting.flag for setting in _settings_of_key(name)]
    if same_key:
        return f"several settings have this key; give {', '.join(same_key[:-1])} or {same_key[-1]}"
    if name.startswith("no_"):
        switches = [word for word in known if len(word) > 2 and not known[word].takes_value]
        close = closest(name.removeprefix("no_"), switches)
        if close:
            return f"there is no such flag; did you mean --no-{close}?"
    close = closest(name, [word for word in known if len(word) > 2])
    if close:
        return f"there is no such flag; did you mean --{close}?"
    return "there is no such flag; --help lists the flags"


def option_text(setting: BrokerSetting) -> str:
    """The help of a setting's flag: what it does, without the reason for its default."""
    text = setting.about.partition(". ")[0].rstrip(".").replace("`", "")
    facts = [", ".join(setting.choices), setting.zero.replace("`", "")]
    if setting.kind == "flag":
        facts.append("on by default" * setting.default)
    elif setting.default not in ("", ()):
        facts.append(f"default: {setting.show(setting.default)}")
    notes = "; ".join(fact for fact in facts if fact)
    return f"{text} ({notes})" if notes else text


def given_settings() -> Callable[..., dict[str, Any]]:
    """Return the options of all settings, as a group that makes the given ones by their path.

    The help shows those that are common, or all of them if `--help-all` asks for it.
    """
    import inspect

    import typer

    from seriatim.cli.completion import one_of

    def by_path(**given: Any) -> dict[str, Any]:
        return {paths[name]: value for name, value in given.items() if value not in (None, [])}

    paths = {setting.parameter: path for path, setting in SETTINGS.items()}
    paths |= {path: path for path in TABLES}
    parameters = []
    for setting in SETTINGS.values():
        if setting.kind == "flag":
            names = [*setting.flags[:-1], f"{setting.flag}/--no-{setting.flag[2:]}"]
            kind: Any = bool
        else:
            several = setting.kind in LIST_KINDS
            names, kind = list(setting.flags), list[str] if several else str
        option = typer.Option(
            *names,
            help=option_text(setting),
            metavar=_metavar(setting),
            rich_help_panel=PANELS[setting.section],
            show_default=False,
            hidden=not setting.common,
            autocompletion=one_of(setting.choices) if setting.choices else None,
        )
        parameters.append(_parameter(setting.parameter, Annotated[kind | None, option]))
    for table in TABLES.values():
        option = typer.Option(
            table.flag,
            help=TABLE_HELP[table.path],
            metavar=TABLE_WORDS[table.path],
            rich_help_panel=PANELS[""],
            show_default=False,
        )
        parameters.append(_parameter(table.path, Annotated[list[str] | None, option]))
    by_path.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return by_path


def _parameter(name: str, annotation: Any) -> "inspect.Parameter":
    import inspect

    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _metavar(setting: BrokerSetting) -> str:
    if setting.kind == "flag":
        return " "  # typer would say <bool>
    words = {"host": "HOST", "http_host": "HOST", "log_file": "FILE", "pid_file": "FILE"}
    words |= {
        "journal.sync": "WHEN",
        "frame": "MODE",
        "loop": "LOOP",
        "store_dir": "DIR",
        "sequencer.exclude": "SUBJECT",
        "cluster.etcd": "URL,URL,...",
        "cluster.secret_file": "FILE",
        "cluster.advertise": "HOST:PORT",
        "cluster.member_advertise": "HOST:PORT",
        **{f"cluster.etcd_{name}": "FILE" for name in ("password_file", "ca", "cert", "key")},
    }
    return words.get(setting.path, setting.kind.upper())
