"""The command `seriatim`: serve, config, pub, sub, journal, version.

Every command imports what it needs when it runs: `seriatim serve` is on its way to the
broker in a fraction of a second, and no error reaches the user but as clear lines.
"""

import contextlib
import os
import sys

from broker.settings.errors import WrongSettings
from seriatim.cli.errors import CliError

INTERRUPTED = 130  # 128 + SIGINT, as shells say it


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit status."""
    _open_what_is_closed()
    try:
        from seriatim.cli.commands import run

        status = run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # here a failure can still be told
        return status
    except (CliError, WrongSettings) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return 1  # as typer does; who read our output has enough
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


def _open_what_is_closed() -> None:
    """Who closes our output wants none; and what is for standard error must not go to the other."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))


def _forget_output() -> None:
    """What could not be written must not fail once more when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):  # it may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str) -> int:
    print(f"seriatim: {text}", file=sys.stderr)
    return 1
