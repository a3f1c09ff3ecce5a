"""The terminal: its modes, its signals, what is read from it and drawn on it.

It is restored on every way out: a key, an exception, SIGINT, SIGTERM, SIGHUP, SIGQUIT; and while
the view is suspended with SIGTSTP. A handler of a signal only notes it, and the loop ends in good
order; only a write that the terminal does not take, as over a connection that hangs, is broken off.
"""

import os
import selectors
import signal
import socket
import sys
import termios
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.text import Text

from seriatim.cli.top.terminal_keys import TerminalKeys

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
NOTED: Final = (*ENDING, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
# The alternate screen, no cursor, no wrapping of lines: the width of a character may be disputed.
BEGIN: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
END: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[{};1H\x1b[?1049l\r"
SIZE_UNKNOWN: Final = (80, 24)
CELLS_MAX: Final = 1000  # in a line, and lines; a terminal may say anything
ESCAPE_S: Final = 0.05  # within which the rest of a key's sequence follows
STUCK_S: Final = 0.5  # after which a write may be broken off
READ_MAX: Final = 4096


class TerminalEnds(Exception):
    """A signal, or the end of the terminal, ends the view. `number`: of the signal, or 0."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Terminal:
    """The terminal of standard input and output, while it is entered."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._console = Console(
            file=sys.stdout, force_terminal=True, highlight=False, markup=False, emoji=False
        )
        self._keys = TerminalKeys()
        self._drawn: list[str] = []
        self._drawn_size = SIZE_UNKNOWN
        self._ended_by = 0
        self._is_suspended = self._is_resumed = False
        self._writing_since: float | None = None
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        for end in (self._bell, self._rope):
            end.setblocking(False)

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._in)
        self._selector.register(self._in, selectors.EVENT_READ)
        self._selector.register(self._bell, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._rope.fileno(), warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, self._note) for number in NOTED}
        try:
            self._set_up()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore_modes()
        self._restore_screen()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        self._selector.close()
        self._bell.close()
        self._rope.close()

    def size(self) -> tuple[int, int]:
        """Return the columns and lines."""
        try:
            width, height = os.get_terminal_size(self._out)
        except OSError:
            return SIZE_UNKNOWN
        if not width or not height:  # a serial line, or a program that has not said
            return SIZE_UNKNOWN
        return min(width, CELLS_MAX), min(height, CELLS_MAX)

    def draw(self, lines: Sequence[Text]) -> None:
        """Draw the lines of the whole screen; only those that changed are sent.

        Raises `TerminalEnds`.
        """
        with self._console.capture() as captured:
            for line in lines:
                self._console.print(line, soft_wrap=True)
        drawn = captured.get().split("\n")[: len(lines)]
        size = self.size()  # a terminal that has changed may have moved its lines
        if len(drawn) != len(self._drawn) or size != self._drawn_size:
            self._drawn, self._drawn_size = [""] * len(drawn), size
            self._write("\x1b[0m\x1b[2J")
        changed = [
            f"\x1b[{at};1H\x1b[2K{new}"
            for at, (new, old) in enumerate(zip(drawn, self._drawn, strict=True), 1)
            if new != old
        ]
        self._drawn = drawn
        if changed:
            self._write("".join(changed))

    def redraw(self) -> None:
        """Draw all lines the next time."""
        self._drawn = []

    def wait(self, others: Iterable[int], timeout: float) -> list[str]:
        """Wait for keys, for a signal, or until one of `others` can be read; return the keys.

        Raises `TerminalEnds`.
        """
        self._check()
        for other in others:
            if other not in self._selector.get_map():
                self._selector.register(other, selectors.EVENT_READ)
        keys: list[str] = []
        ready = {key.fd for key, _ in self._selector.select(max(timeout, 0.0))}
        if self._bell.fileno() in ready:
            with suppress(BlockingIOError):
                self._bell.recv(READ_MAX)
        if self._in in ready:
            keys = self._read()
        self._check()
        return keys

    def _read(self) -> list[str]:
        try:
            data = os.read(self._in, READ_MAX)
        except OSError:
            data = b""
        if not data:
            raise TerminalEnds(0)
        keys = self._keys.feed(data)
        if self._keys.is_open:
            with selectors.DefaultSelector() as selector:
                selector.register(self._in, selectors.EVENT_READ)
                more = selector.select(ESCAPE_S)
            keys += self._read() if more else self._keys.flush()
        return keys

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number in ENDING:
            self._ended_by = self._ended_by or number
            since = self._writing_since
            if since is not None and time.monotonic() - since > STUCK_S:
                raise TerminalEnds(number)
        elif number == signal.SIGTSTP:
            self._is_suspended = True
        elif number == signal.SIGCONT:
            self._is_resumed = True

    def _check(self) -> None:
        """Do what a signal has asked for."""
        if self._ended_by:
            raise TerminalEnds(self._ended_by)
        if self._is_suspended:
            self._suspend()
        elif self._is_resumed:  # after SIGSTOP, when a shell has had the terminal
            self._set_up()

    def _suspend(self) -> None:
        self._restore_modes()
        self._restore_screen()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)  # returns when somebody continues us
        signal.signal(signal.SIGTSTP, self._note)
        self._before = termios.tcgetattr(self._in)
        self._set_up()

    def _set_up(self) -> None:
        self._is_suspended = self._is_resumed = False
        modes = termios.tcgetattr(self._in)
        modes[0] &= ~(termios.IXON | termios.INLCR)  # Ctrl-S must not stop us
        modes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._in, termios.TCSANOW, modes)
        self._write(BEGIN)
        self.redraw()

    def _restore_modes(self) -> None:
        with suppress(OSError, termios.error):  # it may be gone
            termios.tcsetattr(self._in, termios.TCSANOW, self._before)
            termios.tcflush(self._in, termios.TCIFLUSH)  # keys that were meant for us

    def _restore_screen(self) -> None:
        with suppress(OSError, TerminalEnds):  # it may be gone, or take nothing
            self._put(END.format(self.size()[1]))

    def _write(self, text: str) -> None:
        if self._ended_by:
            raise TerminalEnds(self._ended_by)
        try:
            self._put(text)
        except OSError:
            raise TerminalEnds(0) from None

    def _put(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "ascii", "replace")
        self._writing_since = time.monotonic()
        try:
            while data:
                data = data[os.write(self._out, data) :]
        finally:
            self._writing_since = None
