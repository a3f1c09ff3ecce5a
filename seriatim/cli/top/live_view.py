"""The loop of the live view: rounds of pages, keys, and lines on the terminal."""

import signal
import time
from typing import Final

from seriatim.cli.errors import FAILED
from seriatim.cli.top.broker_watch import BrokerWatch
from seriatim.cli.top.page_reader import NoAnswer, PageAsker, PageReader
from seriatim.cli.top.terminal import Terminal, TerminalEnds
from seriatim.cli.top.top_screen import TopScreen

QUIET_S: Final = 2.0  # a round that takes longer is shown as one without an answer
TICK_S: Final = 1.0  # how often the seconds without an answer are drawn again


def show(reader: PageReader, screen: TopScreen) -> int:
    """Show the broker until a key or a signal ends it; return the exit status.

    The first round has been taken. SIGTERM and SIGHUP end the process after the terminal is
    restored.
    """
    ended_by = 0
    try:
        with Terminal() as terminal, PageAsker(reader) as asker:
            LiveView(screen, terminal, asker).run()
    except TerminalEnds as ends:
        ended_by = ends.number
        if not ended_by:
            return FAILED  # the terminal is gone
    if ended_by in (0, signal.SIGINT):
        return 0
    signal.signal(ended_by, signal.SIG_DFL)
    signal.raise_signal(ended_by)
    return FAILED  # the signal is blocked


class LiveView:
    """One run of the loop."""

    def __init__(self, screen: TopScreen, terminal: Terminal, asker: PageAsker) -> None:
        self._screen = screen
        self._watch: BrokerWatch = screen.watch
        self._terminal = terminal
        self._asker = asker
        self._answered_at = self._asked_at = time.monotonic()

    def run(self) -> None:
        """Ask, draw and take keys until one of them ends it. Raises `TerminalEnds`."""
        screen = self._screen
        while True:
            self._take()
            now = time.monotonic()
            if not self._asker.is_busy and self._is_due(now):
                self._asked_at, screen.is_hurried = now, False
                self._asker.ask(screen.wanted())
            self._terminal.draw(screen.lines(*self._terminal.size(), self._silence(now)))
            for key in self._terminal.wait((self._asker.fileno(),), self._until_next(now)):
                if key == "redraw":
                    self._terminal.redraw()
                elif not screen.press(key):
                    return

    def _take(self) -> None:
        heard = self._asker.take()
        if heard is None:
            return
        if isinstance(heard, NoAnswer):
            self._screen.trouble = str(heard)
            self._watch.miss()
        else:
            self._screen.trouble = ""
            self._answered_at = time.monotonic()
            self._watch.learn(heard)

    def _is_due(self, now: float) -> bool:
        screen = self._screen
        is_time = now - self._asked_at >= screen.interval
        return screen.is_hurried or (is_time and not screen.is_paused)

    def _silence(self, now: float) -> float | None:
        """Return for how many seconds an answer is missing; None if it is not."""
        is_late = self._asker.is_busy and now - self._asked_at > QUIET_S
        return now - self._answered_at if self._screen.trouble or is_late else None

    def _until_next(self, now: float) -> float:
        """Return how long to wait, if nothing happens."""
        if self._asker.is_busy or self._screen.is_paused:
            return TICK_S
        return min(max(self._asked_at + self._screen.interval - now, 0.0), TICK_S)
