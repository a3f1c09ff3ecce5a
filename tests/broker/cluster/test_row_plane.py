"""Rows of a batch at a coordinator: numbered in the cluster's order, and shown to nobody yet."""

from typing import Any, cast

from broker.cluster.row_plane import RowPlane
from broker.dataplane.kinds import Classifier
from broker.dataplane.staged_rows import Staged
from parser.machine import Parser
from sequencer.replica.forward_table import ForwardTable
from sequencer.replica.numbering import Numbering
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist
from tests.sequencer.replica.forwarding import EPOCH, RUN, SALT, MemoryJournal, read

ROWS = b"PUB orders.new 3\r\none\r\nPUB orders.new 3\r\ntwo\r\n"
ORIGIN = 1 << 63 | 5


def test_given_rows_when_published_then_they_have_the_next_numbers_and_no_place_in_the_table() -> (
    None
):
    log = MemoryJournal()
    numbering = Numbering(ForwardTable(RUN, SALT), Sequencer(), None)
    numbering.start(log, EPOCH, lambda error: None)
    plane = RowPlane(Sublist(Classifier([])), numbering.sequencer)
    plane.attach(cast(Any, None))
    staged = Staged(plane)
    assert staged.publish(Parser(), bytearray(ROWS), 0, len(ROWS), ORIGIN, 1, 100) == 2
    assert staged.ended
    assert numbering.sequencer.release()
    found = read(b"".join(log.records))
    assert [(number, one.origin, one.sequence, one.payload) for number, one in found] == [
        (1, ORIGIN, 1, b"one"),
        (2, ORIGIN, 2, b"two"),
    ]
    assert numbering.table.placed == 0
    assert plane.sequencer.number == 0, "what is shown is counted elsewhere"
