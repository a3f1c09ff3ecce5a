"""Faults of the journal: each is reported once, and the memory for them is bounded."""

import errno
from typing import Any

import pytest

from broker.replay.stepper import REPORTED_MAX, Faults


def test_given_a_fault_that_many_meet_then_it_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults: Any = Faults()  # which only names the piece
    for offset in range(3):
        faults.unreadable("1.seg", offset, OSError(errno.EIO, "no"))
        faults.damaged("1.seg", 64, 7)
    faults.damaged("1.seg", 128, 9)
    faults.damaged("2.seg", 64, 7)
    assert [record.getMessage() for record in caplog.records] == [
        "Journal: cannot read 1.seg at 0: [Errno 5] no",
        "Journal: 1.seg is damaged at 64, number 7",
        "Journal: 1.seg is damaged at 128, number 9",
        "Journal: 2.seg is damaged at 64, number 7",
    ]


def test_given_more_faults_than_are_remembered_then_the_oldest_is_reported_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults: Any = Faults()  # which only names the piece
    for offset in range(REPORTED_MAX + 1):
        faults.damaged("1.seg", offset, 1)
    faults.damaged("1.seg", REPORTED_MAX, 1)
    assert len(caplog.records) == REPORTED_MAX + 1
    faults.damaged("1.seg", 0, 1)
    assert len(caplog.records) == REPORTED_MAX + 2
