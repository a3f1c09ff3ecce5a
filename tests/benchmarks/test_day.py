"""A day in miniature: costs at both ends of it, and the memory that it took."""

from benchmarks.day import run_day
from benchmarks.scenarios import Day
from benchmarks.servers import KNOWN


def test_given_a_short_day_when_run_then_its_ends_and_its_memory_are_known() -> None:
    day = Day(name="x", about="", messages=500_000, size=128)
    sample = run_day(day, KNOWN["seriatim-day"])
    assert sample.messages == 500_000
    assert sample.first_cpu_us > 0
    assert sample.growth == sample.last_cpu_us / sample.first_cpu_us
    assert sample.peak_mib > sample.cache_mib / 100 > 0
