"""A connection's outbox and options, as far as they are seen from outside the data plane."""

from typing import Any

import pytest

from broker.dataplane.link import Link
from broker.dataplane.plane import Plane
from parser.machine import Parser
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

FRAMED, BARE, FRAMED_HEADERS, BARE_HEADERS, NUMBERED_HEADERS = range(5)
SEGMENT = 256 * 1024


class Quiet:
    """A session that leaves all output where it is."""

    def __init__(self) -> None:
        self.cuts = 0

    def flush(self) -> None:
        """The socket takes nothing."""

    def cut_off(self) -> None:
        self.cuts += 1


@pytest.fixture
def plane() -> Plane:
    return Plane(Sublist(), Sequencer(), 1 << 20)


def stalled(max_pending: int = 1 << 26) -> Link:
    link = Link(Quiet(), Parser(), max_pending)
    link.writable = False
    return link


def drained(link: Link) -> bytes:
    """Take all that waits, as a session does."""
    found = b""
    while (view := link.next_waiting()) is not None:
        found += view
    with link.unsent() as view:
        found += view
    link.emptied(link.stored())
    return found


def test_given_a_new_link_then_it_is_what_a_client_is_before_connect() -> None:
    link = Link(Quiet(), Parser(), 100)
    assert (link.verbose, link.pedantic, link.echo, link.chatty) == (True, True, True, True)
    assert (link.headers, link.no_responders) == (False, False)
    assert (link.writable, link.closed, link.lagging, link.dirty) == (True, False, False, False)
    assert (link.frame, link.shape) == ("netstring", FRAMED)
    assert link.max_pending == 100
    assert link.held() == link.stored() == 0
    assert link.next_waiting() is None
    assert drained(link) == b""


@pytest.mark.parametrize(
    ("frame", "headers", "shape", "headed_shape"),
    [
        ("netstring", False, FRAMED, FRAMED_HEADERS),
        ("netstring", True, FRAMED, FRAMED_HEADERS),
        ("header", True, NUMBERED_HEADERS, NUMBERED_HEADERS),
        ("header", False, BARE, BARE_HEADERS),
        ("none", False, BARE, BARE_HEADERS),
        ("none", True, BARE, BARE_HEADERS),
    ],
)
def test_given_a_frame_and_headers_when_settled_then_messages_have_this_shape(
    frame: str, headers: bool, shape: int, headed_shape: int
) -> None:
    link = stalled()
    link.headers = headers
    link.settle(frame)
    assert (link.frame, link.shape, link.headed_shape) == (frame, shape, headed_shape)
    assert link.parser.headers is headers


@pytest.mark.parametrize(
    ("verbose", "pedantic", "chatty"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_given_verbose_or_pedantic_when_settled_then_the_link_is_chatty(
    verbose: bool, pedantic: bool, chatty: bool
) -> None:
    link = stalled()
    link.verbose, link.pedantic = verbose, pedantic
    link.settle("none")
    assert link.chatty is chatty


@pytest.mark.parametrize("piece", [1, 100, 4095, 4096, 4097, 70_000, SEGMENT, SEGMENT + 1])
def test_given_pieces_of_any_size_then_they_wait_whole_and_in_order(
    plane: Plane, piece: int
) -> None:
    link = stalled()
    said = [bytes([65 + turn % 26]) * piece for turn in range(40)]
    for one in said:
        assert plane.say(link, one)
    assert link.held() == 40 * piece == link.waiting_bytes + link.stored()
    assert drained(link) == b"".join(said)
    assert link.held() == 0


def test_given_full_stores_then_each_ends_at_the_end_of_a_piece(plane: Plane) -> None:
    link = stalled()
    for _ in range(1000):
        plane.say(link, b"x" * 999 + b"\n")
    sizes = []
    while (view := link.next_waiting()) is not None:
        assert bytes(view[-1:]) == b"\n"
        sizes.append(len(view))
    assert sizes
    assert all(SEGMENT - 1000 <= size <= SEGMENT for size in sizes)


@pytest.mark.parametrize("extra", [0, 1])
def test_given_pieces_up_to_max_pending_then_they_are_taken_and_one_byte_more_is_too_slow(
    plane: Plane, extra: int
) -> None:
    link = stalled(max_pending=4 * SEGMENT)
    for _ in range(3):
        assert plane.say(link, b"x" * SEGMENT)
    assert plane.say(link, b"x" * (SEGMENT + extra)) is (extra == 0)
    plane.release(None)
    session: Any = link.session
    assert session.cuts == extra
    assert link.closed is bool(extra)


def test_given_a_link_that_is_too_slow_then_it_is_cut_off_once_and_takes_no_more(
    plane: Plane,
) -> None:
    link = stalled(max_pending=5000)
    for _ in range(9):
        plane.say(link, b"x" * 4000)
    plane.release(None)
    plane.release(None)
    session: Any = link.session
    assert session.cuts == 1
    link.drop_output()
    assert not plane.say(link, b"x" * 4000)
    assert link.held() == 0


def test_given_a_closed_link_then_it_takes_nothing(plane: Plane) -> None:
    link = stalled()
    link.closed = True
    assert not plane.say(link, b"x")
    plane.release(None)
    session: Any = link.session
    assert session.cuts == 0


def test_given_output_that_is_dropped_then_what_comes_next_is_all_there_is(plane: Plane) -> None:
    link = stalled()
    plane.say(link, b"x" * (2 * SEGMENT))
    plane.say(link, b"y")
    link.drop_output()
    assert link.held() == link.waiting_bytes == 0
    assert drained(link) == b""
    plane.say(link, b"z")
    assert drained(link) == b"z"


def test_given_a_store_that_is_taken_then_the_link_has_none_and_begins_another(
    plane: Plane,
) -> None:
    link = stalled()
    plane.say(link, b"x")
    link.emptied(link.stored())
    assert len(link.take_store()) >= 1
    assert len(link.take_store()) == 0
    plane.say(link, b"y")
    assert drained(link) == b"y"


def test_given_a_link_that_has_parted_then_it_holds_neither_session_nor_output(
    plane: Plane,
) -> None:
    link = stalled()
    plane.say(link, b"x")
    link.part()
    assert link.session is None
    assert link.held() == 0
