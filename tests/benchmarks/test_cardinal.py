"""The benchmark of Cardinal Streams: it runs, and counts every block."""

import pytest

from benchmarks import cardinal
from benchmarks.cardinal import main, pending


def test_given_a_short_run_when_made_then_every_row_is_there_with_its_goal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cardinal, "TOTAL", 20_000)
    monkeypatch.setattr(cardinal, "PENDING", 10)
    assert main(["--quick"]) in (0, 1), "how fast it is depends on the machine"
    said = capsys.readouterr().out
    for size in (200, 20):
        for what in ("encode", "assemble", "assemble, no copies"):
            assert f"{what}, blocks of {size}" in said
    assert "pending: 10 blocks" in said


def test_given_unfinished_blocks_when_weighed_then_the_assembler_counts_what_they_take() -> None:
    taken, counted, sent = pending(20)
    assert sent < taken < 1.5 * counted
