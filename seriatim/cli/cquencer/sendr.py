"""`seriatim sendr`: sends lines to cquencer's port, and shows the numbers it answers.

On a terminal it prompts for one line at a time, as cquencer's own sendr does; from a pipe each line
is a message. With netstrings, a pipe is sent as fast as it can be read, and the answers are printed
as they arrive. Without, each line waits for its answer: one recv must read exactly one message.
"""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from seriatim.cli.completion import one_of
from seriatim.cli.errors import CliError, UsageError

CONNECT_SECONDS_MAX = 5.0
# even a slow disk answers by then; otherwise it is not cquencer's port
ANSWER_SECONDS_MAX = 30.0
HISTORY_LINES = 1000
LINE_MAX = 32_000  # bytes that one send and one recv always transfer whole
CHUNK = 1 << 16
FRAMINGS = ("recv", "netstring")


def sendr(
    port: Annotated[int, typer.Argument(min=1, max=65535, metavar="PORT", help="cquencer's port.")],
    host: Annotated[
        str, typer.Option("-a", "--host", metavar="HOST", help="The host it is on.")
    ] = "127.0.0.1",
    framing: Annotated[
        str,
        typer.Option(
            metavar="recv|netstring",
            help="Where a message ends; the same as at the port.",
            autocompletion=one_of(("recv", "netstring")),
        ),
    ] = "recv",
) -> int:
    """Send lines to cquencer's port, and show the numbers they get.

    Type a line, and it is a message; an empty line asks for the last number.
    Ctrl-D ends it. There is a history of typed lines.

    From a pipe every line is a message, and the answers are printed one a line.
    Refusals go to standard error, and the status is then 1.

    [bold]Examples[/bold]

    [cyan]seriatim sendr 3001[/cyan]
    [cyan]seq 1000 | seriatim sendr 3001 --framing netstring[/cyan]    all without waiting
    """
    if framing not in FRAMINGS:
        raise UsageError(f'--framing: "{framing}" is not one of {", ".join(FRAMINGS)}')
    if sys.stdin is None:
        raise CliError("standard input is closed")
    with Line(host, port, framing == "netstring") as line:
        if sys.stdin.isatty():
            return _converse(line)
        answers = AnswerPrinter(sys.stdout.buffer)
        if framing == "netstring":
            _pour(line, sys.stdin.buffer, answers)
        else:
            _one_by_one(line, sys.stdin.buffer, answers)
        return 1 if answers.refused else 0


class Line:
    """A connection to the port. Every failure is a `CliError` that names the place."""

    def __init__(self, host: str, port: int, netstrings: bool) -> None:
        self.place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.netstrings = netstrings
        self._heard = b""
        try:
            self.socket = socket.create_connection((host, port), CONNECT_SECONDS_MAX)
            self.socket.settimeout(None)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise self.failed(error) from error

    def failed(self, error: OSError) -> CliError:
        """The failure in words for the user."""
        if isinstance(error, ConnectionRefusedError):
            return CliError(f"{self.place}: connection refused: nothing listens there")
        if isinstance(error, TimeoutError):
            return CliError(f"{self.place}: no answer in time")
        if isinstance(error, ConnectionError):
            return CliError(
                f"{self.place}: the connection was closed before everything was answered"
            )
        return CliError(f"{self.place}: {(error.strerror or str(error)).lower()}")

    def send(self, *messages: bytes) -> None:
        """Send messages; without netstrings a single one, with a NUL after it, as cquencer's sendr
        does.
        """
        if self.netstrings:
            data = b"".join(b"%d:%b," % (len(message), message) for message in messages)
        else:
            (message,) = messages
            data = message + b"\0"
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise self.failed(error) from error

    def hear(self) -> bytes:
        """The next answer, a netstring as received; empty when the broker has closed."""
        while not (answer := self._whole()):
            try:
                more = self.socket.recv(CHUNK)
            except OSError as error:
                raise self.failed(error) from error
            if not more:
                return b""
            self._heard += more
        return answer

    def has_more(self) -> bool:
        """True if received answers were not yet returned by `hear`."""
        return bool(self._heard)

    def _whole(self) -> bytes:
        """The first received answer, if it is complete."""
        length, colon, _ = self._heard[:24].partition(b":")
        if not (length.isdigit() if colon else length[:20].isdigit() or not length):
            raise CliError(f"{self.place}: answers {self._heard[:40]!r}, which is not a netstring")
        size = len(length) + 2 + int(length) if colon else 0
        if not size or len(self._heard) < size:
            return b""
        answer, self._heard = self._heard[:size], self._heard[size:]
        return answer

    def send_and_wait(self, message: bytes) -> bytes:
        """Send one message and return its answer. Raises `CliError` if none comes."""
        self.socket.settimeout(ANSWER_SECONDS_MAX)
        self.send(message)
        return self.hear() or self._gone()

    def _gone(self) -> bytes:
        raise self.failed(ConnectionResetError())

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()


class AnswerPrinter:
    """Printer of answers when there is no prompt."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.count = 0
        self.refused = 0

    def show(self, answer: bytes) -> None:
        """Print an answer; a refusal goes to standard error, with its line number."""
        self.count += 1
        text = answer.partition(b":")[2][:-1]
        if text.isdigit():
            self._out.write(answer + b"\n")
        else:
            self.refused += 1
            shown = text.decode(errors="backslashreplace")
            print(f"seriatim: line {self.count}: {shown}", file=sys.stderr, flush=True)

    def flush(self) -> None:
        self._out.flush()


def _one_by_one(line: Line, lines: BinaryIO, answers: AnswerPrinter) -> None:
    """Send each line after the answer to the one before."""
    for at, text in enumerate(lines, 1):
        message = text.removesuffix(b"\n")
        if len(message) > LINE_MAX:
            raise CliError(
                f"line {at} has {len(message)} bytes, and one recv may not take them whole;"
                " use --framing netstring, on both sides"
            )
        answers.show(line.send_and_wait(message))
        answers.flush()


def _pour(line: Line, lines: BinaryIO, answers: AnswerPrinter) -> None:
    """Send lines as they come; a thread prints the answers as they come."""
    trouble: list[Exception] = []

    def listen() -> None:
        try:
            while answer := line.hear():
                answers.show(answer)
                if not line.has_more():
                    answers.flush()
        except Exception as error:
            trouble.append(error)
            with contextlib.suppress(OSError):
                line.socket.shutdown(socket.SHUT_RDWR)  # stop the sender, too

    listener = threading.Thread(target=listen, name="answers", daemon=True)
    listener.start()
    sent = 0
    try:
        for messages in _batches(lines):
            sent += len(messages)
            line.send(*messages)
        # if the connection is gone, the reader of answers notices
        with contextlib.suppress(OSError):
            line.socket.shutdown(socket.SHUT_WR)  # the broker answers all it has got, and closes
    except (CliError, OSError) as error:
        trouble.append(error)
    while listener.is_alive():
        count = answers.count
        listener.join(ANSWER_SECONDS_MAX)
        if listener.is_alive() and answers.count == count:
            trouble.append(line.failed(TimeoutError()))
            with contextlib.suppress(OSError):
                line.socket.shutdown(socket.SHUT_RDWR)
    answers.flush()
    if trouble and not answers.refused:
        raise trouble[0]
    if answers.count < sent and not answers.refused:
        raise line.failed(ConnectionResetError())


def _batches(lines: BinaryIO) -> Iterator[list[bytes]]:
    """Lines, in batches of what is available."""
    rest = b""
    read: Callable[[int], bytes] = getattr(lines, "read1", lines.read)
    while chunk := read(CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        if whole:
            yield whole
    if rest:
        yield [rest]


# The prompt


def _converse(line: Line) -> int:
    """Prompt for lines until there are no more."""
    with _history():
        while True:
            try:
                text = input("? ")
            except EOFError:
                print()
                return 0
            answer = line.send_and_wait(text.encode(errors="surrogateescape"))
            print(f"# {answer.decode(errors='backslashreplace')}")


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Line editing and a history, if there is readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = _history_file(os.environ)
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_history_length(HISTORY_LINES)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)


def _history_file(environment: "os._Environ[str] | dict[str, str]") -> Path:
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()
    return base / "seriatim" / "sendr_history"
