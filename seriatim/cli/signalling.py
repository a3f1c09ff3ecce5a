"""`seriatim serve --signal reload=PID`: sends a running broker a signal, as nats-server does.

After `=` comes a process id, or a file that contains one. Without it, the `pid_file` of the
settings names the broker. Only a process that looks like a broker gets a signal: the number in an
old pid file may belong to another process now.
"""

import os
import signal
from pathlib import Path
from typing import Final

from seriatim.cli.errors import CliError, UsageError

FLAGS: Final = ("sl", "signal")
SIGNALS: Final = {
    "reload": signal.SIGHUP,
    "reopen": signal.SIGUSR1,
    "ldm": signal.SIGUSR2,
    "quit": signal.SIGINT,
    "stop": signal.SIGTERM,  # nats-server kills; a broker that stops delivers what it accepted
    "term": signal.SIGTERM,
}
OURS: Final = (b"seriatim", b"broker")


def without_signal(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the flag's value, None without the flag, and the other words. Raises `CliError`."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not word.startswith("-") or name.lstrip("-") not in FLAGS:
            continue
        rest = words[:at] + words[at + 1 :]
        if not equals:
            if len(rest) == at:
                raise UsageError(f"{word}: needs a value; {_how()}")
            value = rest.pop(at)
        return value, rest
    return None, words


def send(asked: str, pid_file: str) -> None:
    """Do what `NAME=PID` or `NAME=FILE` asks for. Raises `CliError`."""
    name, _, which = asked.partition("=")
    if name not in SIGNALS:
        raise UsageError(f'--signal: "{name}" is not one of {", ".join(SIGNALS)}; {_how()}')
    pid = _pid_of(which or pid_file)
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        raise CliError(f"--signal: there is no process {pid}") from None
    if not any(word in command for word in OURS):
        raise CliError(f"--signal: process {pid} is not a broker; is its pid file an old one?")
    try:
        os.kill(pid, SIGNALS[name])
    except OSError as error:
        raise CliError(f"--signal: process {pid}: {error.strerror}") from None


def _pid_of(which: str) -> int:
    text = which
    if not which:
        raise CliError(f"--signal: to which broker? {_how()}, or --pid FILE")
    if not which.isdecimal():
        try:
            text = Path(which).read_text().strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "is not a pid file"
            raise CliError(f"--signal: {which}: {why}") from None
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 1 << 31:
        raise CliError(f"--signal: {which}: holds no process id")
    return int(text)


def _how() -> str:
    return "give --signal reload=PID, or a file in place of PID"
