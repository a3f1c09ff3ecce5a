"""Examines the clock: whether it is synchronised, and against the journal and other brokers."""

import ctypes
import http.client
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult

from sequencer.journal import Lost, Reader
from sequencer.journal.errors import StoreError
from sequencer.replica.clock_difference import APART_S, clock_words
from seriatim.cli.check.check_broker import Approach
from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import Patient, hint, ok, warning
from seriatim.settings.moments import show_time

SOURCES: Final = Path("/sys/devices/system/clocksource/clocksource0")
SLOW_SOURCES: Final = frozenset({"acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"})
UNSYNCHRONISED: Final = 0x40  # STA_UNSYNC
SET_IT: Final = (
    "run an NTP client, such as chrony or systemd-timesyncd (`timedatectl set-ntp true`)"
)


class Timex(ctypes.Structure):
    """The beginning of struct timex of adjtimex(2), and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def synchronised() -> Iterator[CheckResult]:
    """Ask the kernel whether something keeps the clock right."""
    state = Timex()
    refused = True
    with suppress(AttributeError):  # other systems have no such call
        refused = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state)) < 0
    if refused:
        yield ok("clock", "unknown whether it is synchronised: the system does not say")
    elif not state.status & UNSYNCHRONISED:
        yield ok("clock", f"synchronised, at most {state.maxerror / 1000:.0f} ms wrong")
    else:
        yield hint(
            "clock",
            "the kernel says that nothing synchronises it; it cannot see a host that sets it",
            "messages get this clock's time: queries by time, and members of a cluster, rely on it",
            SET_IT,
        )


def clock_source() -> Iterator[CheckResult]:
    """Say what the clock is read from."""
    current = (SOURCES / "current_clocksource").read_text().strip()
    available = (SOURCES / "available_clocksource").read_text().split()
    if current not in SLOW_SOURCES:
        yield ok("clock source", current)
        return
    yield hint(
        "clock source",
        f"{current}; available: {', '.join(available)}",
        "each reading of the clock is a system call, of a microsecond or more, and the broker reads"
        " it in every turn",
        "boot with clocksource=tsc or tsc=reliable if the processor's counter is sound"
        " (`dmesg | grep -i tsc`)",
    )


def against_journal(patient: Patient) -> Iterator[CheckResult]:
    """Compare the clock with the time of the newest message."""
    if not patient.settings.journal.enabled or not Path(patient.settings.store_dir).is_dir():
        return
    try:
        reader = Reader(patient.settings.store_dir)
    except StoreError:
        return  # there is no store yet, or `serve` says what is wrong with it
    _, last = reader.bounds()
    for message in reader.records(last, last) if last else ():
        if isinstance(message, Lost):
            return
        ahead = (message.time - time.time_ns()) / 1e9
        text = f"message {message.number} is of {show_time(message.time)}"
        if ahead <= APART_S:
            yield ok("journal time", f"{text}, not after the clock")
            continue
        yield warning(
            "journal time",
            f"{text}: the clock is {clock_words(-ahead)} it",
            "the clock is behind, or was ahead: until it has caught up, all messages get that time",
            f"set the clock if it is behind: {SET_IT}",
        )


def against_broker(parts: SplitResult, approach: Approach) -> Iterator[CheckResult]:
    """Compare the clock with that of another broker, by its monitoring."""
    from seriatim.cli.check.check_web import NoWebAnswer, web_connection, web_page

    where = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    try:
        with web_connection(parts, approach) as connection:
            before = time.time()
            status, page = web_page(connection, "/varz", approach)
            after = time.time()
        if status != http.client.OK:
            raise NoWebAnswer(f"{where}: {status} {page.get('error', '')}".rstrip())
        told = datetime.fromisoformat(str(page.get("now"))).timestamp()
    except (NoWebAnswer, ValueError) as error:
        yield warning(
            "clock of others",
            f"cannot compare: {error}",
            "clocks of a cluster's members should agree",
            "give --compare the address of a broker's monitoring, http://USER:PASSWORD@HOST:8222",
        )
        return
    # The other clock was read between these two: only what is outside is a difference.
    ahead = told - after if told > after else min(told - before, 0.0)
    text = f"{where} is {clock_words(ahead)} this one" if ahead else f"{where} agrees"
    text += f", within {(after - before) * 1000:.0f} ms"
    if abs(ahead) <= APART_S:
        yield ok("clock of others", text)
        return
    yield warning(
        "clock of others",
        text,
        "messages get the time of the broker that numbers them: after a change of the coordinator"
        " times stand still, or jump",
        f"find out which one is wrong, and there {SET_IT}",
    )
