"""The clocks of a broker: the time of day, which may jump, and a steady one.

The time of day is for what people read: the times of records, logs, monitoring. It may jump by
years in either direction, when a virtual machine is resumed or NTP sets it. So nothing is given up,
deleted or refused because of it: ages are measured with `steady_ns`.
"""

import time
from contextlib import suppress
from typing import Final

from sequencer.journal.kept_ids import Moment

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def steady_ns() -> int:
    """Nanoseconds since the machine booted, also those in which it slept. It never jumps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the id of the boot that `steady_ns` counts from; "" if the system does not say."""
    with suppress(OSError), open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
    return ""


def moment() -> Moment:
    """Return the present moment, by both clocks."""
    return Moment(boot_id(), steady_ns(), time.time_ns())


class SteadyTime:
    """The time of day as it was at the start, and what has passed since: it does not jump."""

    def __init__(self) -> None:
        self._start = time.time_ns() - steady_ns()

    def now(self) -> int:
        """Nanoseconds since 1970."""
        return self._start + steady_ns()
