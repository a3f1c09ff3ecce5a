"""The figures of the broker, once a second, for all who look at the live page.

One thread takes them while there are viewers, and none otherwise: a broker that is not looked at
does nothing for this. What the charts show is kept for the next viewer, so a page that is loaded
again goes on where it was.

    viewer thread --watch--> waits for the next sample     (its request's own thread)
    sampler thread --------> takes a sample, wakes viewers (exists while there are viewers)
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

PERIOD_SECONDS: Final = 1.0
KEPT_SECONDS: Final = 600  # of the past, which a new viewer sees at once
VIEWERS_MAX: Final = 8  # half of the requests that monitoring serves at a time
# What the charts are made of: counters and gauges of /varz, by their place there.
CHARTED: Final = (
    *("in_msgs", "out_msgs", "in_bytes", "out_bytes", "sequence", "pending_bytes", "connections"),
    *("cpu", "mem", "loop_turn_seconds_max", "journal.syncs", "journal.sync_seconds"),
)
RETRY_MS: Final = 1000  # after which a browser connects again

Page = dict[str, Any]
Row = list[float]


class TooManyViewers(Exception):
    """As many pages are open as are served at a time."""


class Live:
    """The samples of one broker. Any thread may call `watch`."""

    def __init__(self, take: Callable[[], Page]) -> None:
        """`take` returns the figures, and may raise: the text of its error is shown then."""
        self._take = take
        self._changed = threading.Condition()
        self._rows: deque[Row] = deque(maxlen=KEPT_SECONDS)
        self._count = 0  # samples taken
        self._newest = b""
        self._viewers = 0
        self._sampler: threading.Thread | None = None
        self._stopped = False

    def watch(self) -> Iterator[bytes]:
        """Yield server-sent events: what is kept, then a sample each second, until `stop`.

        Raises `TooManyViewers`. The viewer is counted until the iterator is closed.
        """
        with self._changed:
            if self._viewers >= VIEWERS_MAX:
                raise TooManyViewers(f"{VIEWERS_MAX} pages are open, as many as are served")
            self._viewers += 1
            if self._sampler is None:
                self._sampler = threading.Thread(target=self._sample, name="live", daemon=True)
                self._sampler.start()
        return Viewing(self)

    def events(self) -> Iterator[bytes]:
        """Yield the events of one viewer."""
        with self._changed:
            seen = self._count
            kept = {"fields": ("time", *CHARTED), "rows": list(self._rows)}
        yield b"retry: %d\n\n" % RETRY_MS + event("history", kept)
        while True:
            with self._changed:
                while self._count == seen and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
                seen, newest = self._count, self._newest
            yield newest

    def leave(self) -> None:
        """Count a viewer less."""
        with self._changed:
            self._viewers -= 1
            self._changed.notify_all()

    def stop(self) -> None:
        """End all views, soon. Returns at once."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _sample(self) -> None:
        """Take samples while anyone looks."""
        due = time.monotonic()
        while True:
            newest, row = self._sampled()
            due = max(due + PERIOD_SECONDS, time.monotonic())  # late ones are left out
            with self._changed:
                self._count += 1
                self._newest = newest
                if row is not None:
                    self._keep(row)
                self._changed.notify_all()
                while self._viewers and not self._stopped:
                    left = due - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                if self._stopped or not self._viewers:
                    self._sampler = None
                    return

    def _keep(self, row: Row) -> None:
        """Append a row for the charts, by time of day; a clock that was set back clears them."""
        if self._rows and row[0] <= self._rows[-1][0]:
            self._rows.clear()
        self._rows.append(row)

    def _sampled(self) -> tuple[bytes, Row | None]:
        """Return the event of the next sample, and its row of the charts."""
        try:
            page = self._take()
            row = [time.time(), *(_at(page, name) for name in CHARTED)]
            return event("sample", {"row": row, "varz": page}), row
        except Exception as error:  # a viewer sees it; the next sample may be better
            return event("trouble", {"error": str(error) or repr(error)}), None


class Viewing(Iterator[bytes]):
    """The events of one viewer; closing it, in any state, counts the viewer less, once."""

    def __init__(self, live: Live) -> None:
        self._live: Live | None = live
        self._events = live.events()

    def __next__(self) -> bytes:
        return next(self._events)

    def close(self) -> None:
        """End it; WSGI calls this on every way out."""
        live, self._live = self._live, None
        if live is not None:
            live.leave()


def event(name: str, content: Page) -> bytes:
    """Write one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()


def _at(page: Page, name: str) -> float:
    part: Any = page
    for key in name.split("."):
        part = part[key]
    return float(part)
