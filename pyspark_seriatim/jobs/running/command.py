"""The common part of the jobs' command lines: options, one-line errors, exit status.

A job is a function with these types, decorated with `job`; `__main__` of its package runs it:

    archive(root: str, server: Server = DEFAULT_SERVER, ...) -> int     its exit status
    run_main("archive")                                                 python -m, spark-submit

Exit status: 0 done; 1 done, with problems found (audit); 2 impossible; 64 wrong arguments.
"""

import functools
import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, ParamSpec

import typer

from pyspark_seriatim.errors import BrokerError, DataLost, OptionError, PySparkNotUsable
from pyspark_seriatim.installed import GET_IT
from pyspark_seriatim.jobs.errors import JobError, WrongArguments, first_line
from seriatim.settings.usage import USAGE, usage_text

DONE, FOUND, FAILED = 0, 1, 2
INTERRUPTED = 130  # 128 + SIGINT, as shells do
DEFAULT_SERVER = "nats://127.0.0.1:4222"
# An error in Python's words.
OURS: Final = re.compile(r"\b(?:pyspark_seriatim|seriatim)(?:\.\w+)+: (.+)")
CAUSE: Final = re.compile(r"Caused by: (?:[\w.$]+: )?(.*\S)")  # of Java's exceptions
TRACEBACK: Final = "Traceback (most recent call last):"
PYTHON_ERROR: Final = re.compile(r"[A-Za-z_][\w.]*(?:: .+)?")
UNREACHABLE: Final = "Python worker failed to connect back"
CONNECT_BACK: Final = (
    "a worker must start within seconds and reach Spark on 127.0.0.1: see whether the Python of"
    " PYSPARK_PYTHON starts, whether a firewall is in between, and how busy the machine is"
)
USAGE_ERROR: Final[Any] = typer.BadParameter.__mro__[1]  # the base, which typer does not export
EXTRA: Final = {"google", "numpy", "pandas", "pyarrow", "pyspark"}
P = ParamSpec("P")

Server = Annotated[
    str,
    typer.Option(
        *("-s", "--url", "--server"),
        metavar="URL",
        envvar="SERIATIM_URL",
        help="The broker: nats://HOST:PORT, or HOST:PORT; several separated by commas.",
    ),
]
Subject = Annotated[
    str, typer.Option("--subject", metavar="SUBJECT", help="Which messages; * and > are wildcards.")
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="MASTER",
        help="Spark's master. By default that of spark-submit, or local\\[*].",
        show_default=False,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark's; repeatable.",
        show_default=False,
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Where Spark keeps its progress. By default a directory below the output.",
        show_default=False,
    ),
]
Once = Annotated[
    bool, typer.Option("--once", metavar=" ", help="End when everything up to now has been read.")
]
Every = Annotated[
    float,
    typer.Option(
        "--every",
        metavar="SECONDS",
        min=0.0,
        help="Without --once: the interval between batches.",
    ),
]
MaxOffsets = Annotated[
    int,
    typer.Option("--max-offsets", metavar="N", min=1, help="At most this many numbers per batch."),
]


def settings(conf: list[str] | None) -> dict[str, str]:
    """The settings given by `--conf`. Raises `JobError`."""
    found = {}
    for text in conf or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise WrongArguments(f"--conf {text}: write KEY=VALUE, such as spark.driver.memory=4g")
        found[key] = value
    return found


def job(function: Callable[P, int]) -> Callable[P, int]:
    """Decorate a job: report why it is impossible in one line on standard error, with status 2."""

    @functools.wraps(function)
    def reporting_errors(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:
            if os.environ.get("SERIATIM_TRACEBACK"):
                raise
            text = words(error)
            if text is None:
                text = (
                    f"unexpected {type(error).__name__}: {error} (a defect of Seriatim; run it"
                    " with SERIATIM_TRACEBACK=1 to see where)"
                )
            print(f"seriatim: {text}", file=sys.stderr)
            return USAGE if isinstance(error, WrongArguments | OptionError) else FAILED

    return reporting_errors


def words(error: BaseException) -> str | None:
    """One line for an expected error; None for a defect."""
    if isinstance(error, JobError | OptionError | BrokerError | DataLost | PySparkNotUsable):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in EXTRA:
        return f"{error.name} is not installed: {GET_IT}"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else first_line(error)
    if type(error).__module__.startswith(("pyspark.errors", "py4j.")):
        return _of_spark(str(error))
    return None


def _of_spark(text: str) -> str:
    """Spark's error, or its cause: a Python error in one of its workers, or Java's last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [found[1] for line in lines if (found := OURS.search(line)) is not None]
    if ours:
        return ours[-1]  # a Python traceback ends with the error that counts
    if error := _of_python(text):
        return error
    for line in lines:
        if UNREACHABLE in line:
            return f"{UNREACHABLE}; {CONNECT_BACK}"
    causes = [found[1] for line in lines if (found := CAUSE.match(line)) is not None]
    if causes:
        return causes[-1]
    for line in lines:
        if line.startswith(": "):  # the JVM's error, after py4j's line about the call
            return line[2:]
    return lines[0] if lines else "Spark failed without a message"


def _of_python(text: str) -> str:
    """The error at the end of the last Python traceback in a text; empty if there is none."""
    error, inside = "", False
    for line in text.splitlines():
        if line.startswith(TRACEBACK):
            inside = True
        elif inside and PYTHON_ERROR.fullmatch(line):
            error, inside = line, False
    return error


def run_main(name: str) -> NoReturn:
    """Run the job of this name as the program."""
    # Run as a file, Python would look for modules in its folder first, and find the wrong ones.
    folder = Path(__file__).parent.parent / name
    sys.path[:] = [one for one in sys.path if Path(one).resolve() != folder]
    sys.exit(run(job_of(name)))


def job_of(name: str) -> Callable[..., int]:
    """Import a job. Raises `ModuleNotFoundError`."""
    found: Callable[..., int] = getattr(
        import_module(f"pyspark_seriatim.jobs.{name}.{name}_job"), name
    )
    return found


def run(function: Callable[..., int], argv: list[str] | None = None, name: str = "") -> int:
    """Run a job's command line; return its exit status."""
    app: Any = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
    )
    app.command()(function)
    try:
        status = app(args=argv, standalone_mode=False, prog_name=name or None)
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        return INTERRUPTED
    except USAGE_ERROR as error:
        print(f"seriatim: {usage_text(error)}; see --help", file=sys.stderr)
        return USAGE
    return status if isinstance(status, int) else DONE
