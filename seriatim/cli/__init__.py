"""The command `seriatim`: the broker (`serve`), and the tools around it.

Every command imports what it needs when it runs, so `seriatim serve` is the broker in a tenth of a
second. Users of a command never see a traceback, only one-line errors; a broker that fails
unexpectedly shows one.
"""

import contextlib
import gc
import io
import os
import signal
import sys
from typing import TYPE_CHECKING

from seriatim.cli.errors import FAILED, CliError
from seriatim.cli.printable import printable_lines
from seriatim.settings.usage import USAGE

try:
    from broker.settings.errors import WrongSettings
except ModuleNotFoundError as error:
    if not str(error.name).startswith("broker"):
        raise
    import broker  # a user's module of this name comes first on sys.path

    raise SystemExit(
        f"seriatim: {broker.__file__} hides Seriatim's package broker: rename it, or take its"
        " folder out of PYTHONPATH"
    ) from None

if TYPE_CHECKING:
    from broker.settings.resolve import Effective

INTERRUPTED = 130  # 128 + SIGINT, as shells do


def main(argv: list[str] | None = None) -> int:
    """Run one command, or the broker; return its exit status."""
    _prepare_output()
    ends_at_once = signal.getsignal(signal.SIGINT) is signal.SIG_DFL  # set in seriatim/__init__.py
    try:
        if ends_at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        done = _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if ends_at_once:  # again: only the broker's start or the interpreter's exit follows
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    if isinstance(done, int):
        return done
    from seriatim.cli.serve import be_broker

    return be_broker(done)


def _run(words: list[str]) -> "int | Effective":
    """Run one command; return its exit status, or the settings of the broker to be."""
    try:
        if words[:1] == ["serve"]:
            gc.disable()  # the modules loaded now stay for good; the broker enables it
            from seriatim.cli.serve import settings_of

            asked, rest = _signal_of(words[1:])
            effective = settings_of(rest, os.environ)
            if asked is not None:
                from seriatim.cli.signalling import send

                send(asked, "" if effective is None else effective.settings.pid_file)
                return 0
            if effective is not None:
                return effective
        from seriatim.cli.commands import run

        status = run(words)
        sys.stdout.flush()  # A failure can still be reported here.
        return status
    except CliError as error:
        return _fail(str(error), error.status)
    except WrongSettings as error:
        return _fail(str(error), USAGE if error.of_arguments else FAILED)
    except BrokenPipeError:
        _forget_output()
        return 1  # as typer does; the reader of our output has closed the pipe
    except OSError as error:
        _forget_output()
        return _fail(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("SERIATIM_TRACEBACK"):
            raise
        return _fail(
            f"unexpected {type(error).__name__}: {error} (a defect of Seriatim; run it with"
            " SERIATIM_TRACEBACK=1 to see where)"
        )


def _signal_of(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of `--signal`, None without it, and the other words."""
    if not any(word.lstrip("-").startswith(("sl", "signal")) for word in words):
        return None, words
    from seriatim.cli.signalling import without_signal

    return without_signal(words)


def _prepare_output() -> None:
    """Make standard output and error take any text, whatever the locale, and even if closed.

    A closed one is opened on /dev/null, so that an error is not written into a file that got its
    descriptor. A character that the encoding lacks becomes a question mark.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _forget_output() -> None:
    """Discard unwritten output; otherwise the interpreter fails again at exit."""
    with contextlib.suppress(OSError, ValueError):  # it may not be a real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str, status: int = FAILED) -> int:
    from broker.runtime.colours import wants_colours

    coloured = wants_colours(sys.stderr.isatty(), os.environ)
    name = "\x1b[31mseriatim:\x1b[0m" if coloured else "seriatim:"
    print(f"{name} {printable_lines(text)}", file=sys.stderr)
    return status
