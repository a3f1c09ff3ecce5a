"""A broker, round after round of its pages: the figures, the rates and the rows.

Takes pages and the times when they came; has no clock, no network and no terminal. A rate is the
change of a counter between two rounds. A broker that was restarted counts from 0 again: there are
no rates until its second round.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from seriatim.cli.top.amounts_shown import read_moment, read_span
from seriatim.cli.top.broker_rows import COUNTERS, RATES, ROWS, TRAFFIC, Row
from seriatim.cli.top.page_reader import Answers
from seriatim.cli.top.page_values import Page, number, part, text, whole

HISTORY_MAX: Final = 3600  # rounds; 160 columns of three minutes at 20 rounds a second
# The page of each kind of rows.
PAGES: Final = {
    "connections": "connz",
    "closed": "closed",
    "streams": "jsz",
    "consumers": "jsz",
    "subscriptions": "subsz",
    "feeds": "varz",
    "members": "routez",
    "figures": "varz",
    "one connection": "detail",
    "its subscriptions": "detail",
}
Counters = tuple[float | None, ...]


class RateMeter:
    """The counters of the last round, by kind of rows."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, Mapping[Hashable, Counters]]] = {}

    def rates(
        self, kind: str, at: float, counters: Mapping[Hashable, Counters]
    ) -> dict[Hashable, Counters]:
        """Return what each counter has risen by per second; nothing for a new one."""
        before_at, before = self._before.get(kind, (at, {}))
        self._before[kind] = at, counters
        seconds = at - before_at
        if seconds <= 0:
            return {}
        return {
            key: tuple(
                None if new is None or old is None else (new - old) / seconds
                for new, old in zip(now, before[key], strict=True)
            )
            for key, now in counters.items()
            if key in before
        }

    def forget(self) -> None:
        """Forget all: the counters begin again."""
        self._before.clear()


@dataclass(slots=True)
class BrokerWatch:
    """One broker, as its pages show it."""

    answers: Answers | None = None
    seconds: float | None = None  # between the last two rounds
    rates: dict[str, float | None] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    history: deque[Mapping[str, float | None]] = field(
        default_factory=lambda: deque(maxlen=HISTORY_MAX)
    )
    rounds: int = 0  # with and without an answer; the history has the last ones
    restarts: int = 0
    _life: tuple[str, str] = ("", "")
    _meter: RateMeter = field(default_factory=RateMeter)

    @property
    def varz(self) -> Page:
        """The page of the broker as a whole; empty before the first round."""
        return self.answers.pages["varz"] if self.answers else {}

    def page(self, name: str) -> Page:
        """Return a page of the last round; empty if it was not asked for, or is not there."""
        return self.answers.pages.get(name, {}) if self.answers else {}

    def learn(self, answers: Answers) -> None:
        """Take the pages of a round."""
        varz = answers.pages["varz"]
        life = text(varz, "server_id"), text(varz, "start")
        if self.answers is not None and life != self._life:
            self.restarts += 1
            self._meter.forget()
            self.rows.clear()
        fresh = self.answers is None or life != self._life
        self.seconds = None if fresh or not self.answers else answers.at - self.answers.at
        self._life, self.answers = life, answers
        self._learn_totals(varz, answers.at)
        for kind, name in PAGES.items():
            if name in answers.pages:
                self.rows[kind] = self._rows(kind, answers.pages[name], answers.at)

    def miss(self) -> None:
        """Note a round without an answer: a gap in the history."""
        self._note({})

    def _learn_totals(self, varz: Page, at: float) -> None:
        names = (*TRAFFIC, "sequence", "syncs", "sync_seconds")
        journal = part(varz, "journal")
        counters = [number(varz, name) for name in names[:5]]
        counters += [number(journal, name) for name in names[5:]]
        found = self._meter.rates("broker", at, {"": tuple(counters)}).get("", (None,) * len(names))
        self.rates = {f"{name}_rate": one for name, one in zip(names, found, strict=True)}
        self._note({name: self.rates[name] for name in RATES})

    def _note(self, rates: Mapping[str, float | None]) -> None:
        self.history.append(rates)
        self.rounds += 1

    def _rows(self, kind: str, page: Page, at: float) -> list[Row]:
        rows, pairs = list(ROWS[kind](page)), COUNTERS[kind]
        if not pairs:
            return rows
        counters = {row["id"]: tuple(row[name] for name, _ in pairs) for row in rows}
        rates = self._meter.rates(kind, at, counters)
        for row in rows:
            found = rates.get(row["id"], (None,) * len(pairs))
            row.update(zip((name for _, name in pairs), found, strict=True))
        return rows

    def summary(self) -> dict[str, Any]:
        """Return the figures of the broker as a whole; None where it has no such figure."""
        varz = self.varz
        ours = "seriatim" in varz
        found: dict[str, Any] = {
            "product": "seriatim" if ours else "nats-server",
            "version": text(varz, "seriatim") or text(varz, "version"),
            "name": text(varz, "server_name"),
            "build": text(varz, "build") or None,
            "uptime": read_span(text(varz, "uptime")),
            "start": text(varz, "start"),
            "now": text(varz, "now"),
            "restarts": self.restarts,
            "sequence": whole(varz, "sequence") if ours else None,
            "sequence_rate": self.rates.get("sequence_rate") if ours else None,
            **{name: whole(varz, name) for name in TRAFFIC},
            **{name: self.rates.get(name) for name in RATES},
            "cpu": number(varz, "cpu"),
            "cores": whole(varz, "cores"),
            "mem": whole(varz, "mem"),
            "connections": whole(varz, "connections"),
            "max_connections": whole(varz, "max_connections"),
            "total_connections": whole(varz, "total_connections"),
            "subscriptions": whole(varz, "subscriptions"),
            "slow_consumers": whole(varz, "slow_consumers"),
            "pending_bytes": whole(varz, "pending_bytes") if ours else None,
            "loop_turn": number(varz, "loop_turn_seconds_max") if ours else None,
            "journal": self._journal() if text(varz, "journal", "journal") else None,
            "cluster": self._cluster() if text(varz, "cluster", "name") else None,
        }
        return found

    def _journal(self) -> dict[str, Any]:
        journal, now = part(self.varz, "journal"), read_moment(text(self.varz, "now"))
        names = ("segments", "bytes", "first", "last", "synced", "syncs", "lost", "refused")
        replays = ("replaying", "catching_up", "given_up")
        syncs, seconds = self.rates.get("syncs_rate"), self.rates.get("sync_seconds_rate")
        oldest = number(journal, "oldest")
        return {
            "store": text(journal, "store"),
            "sync": text(journal, "sync"),
            "full": journal.get("full") is True,
            **{name: whole(journal, name) for name in (*names, *replays)},
            "window": now - oldest if now and oldest else None,
            "syncs_rate": syncs,
            "sync_time": seconds / syncs if seconds is not None and syncs else None,
        }

    def _cluster(self) -> dict[str, Any]:
        cluster = part(self.varz, "cluster")
        names = ("name", "role", "status", "coordinator", "member")
        figures = ("epoch", "watermark", "log_last", "view_members", "members_answering")
        counts = {name: whole(cluster, name) if name in cluster else None for name in figures}
        return {name: text(cluster, name) or None for name in names} | counts
