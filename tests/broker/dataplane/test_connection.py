"""A connection's outbox and options, as seen from outside the data plane."""

from typing import Any, cast

import pytest

from broker.dataplane.connection import Connection, SpareBuffers
from broker.dataplane.plane import Plane
from parser.machine import Parser
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

FRAMED, BARE, FRAMED_HEADERS, BARE_HEADERS, NUMBERED_HEADERS, STAMPED_HEADERS = range(6)
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


def stalled(max_pending: int = 1 << 26) -> Connection:
    connection = Connection(cast(Any, Quiet()), Parser(), max_pending)
    connection.writable = False
    return connection


def drained(connection: Connection) -> bytes:
    """Take all that waits, as a session does."""
    found = bytearray()
    connection.drain(found.extend, stalled=True)
    return bytes(found)


def test_given_a_socket_that_stalls_when_drained_then_the_rest_waits_for_it(plane: Plane) -> None:
    connection = stalled()
    for letter in b"abcd":
        plane.send_control(connection, bytes([letter]) * (SEGMENT - 1))
    found: list[bytes] = []

    def write(view: memoryview) -> None:
        found.append(bytes(view[:1]))
        connection.writable = len(found) != 2

    connection.drain(write)
    assert found == [], "it takes nothing"
    connection.writable = True
    connection.drain(write)
    assert (found, connection.held()) == ([b"a", b"b"], 2 * (SEGMENT - 1))
    connection.drain(write)
    assert len(found) == 2
    connection.writable = True
    connection.drain(write)
    assert (found, connection.held()) == ([b"a", b"b", b"c", b"d"], 0)


def test_given_a_new_link_then_it_is_what_a_client_is_before_connect() -> None:
    connection = Connection(cast(Any, Quiet()), Parser(), 100)
    assert (connection.verbose, connection.pedantic, connection.echo, connection.chatty) == (
        True,
        True,
        True,
        True,
    )
    assert (connection.headers, connection.no_responders) == (False, False)
    assert (connection.writable, connection.closed, connection.lagging, connection.dirty) == (
        True,
        False,
        False,
        False,
    )
    assert (connection.frame, connection.shape) == ("netstring", FRAMED)
    assert connection.max_pending == 100
    assert connection.held() == connection.buffered() == 0
    assert drained(connection) == b""


@pytest.mark.parametrize(
    ("frame", "headers", "shape", "headed_shape"),
    [
        ("netstring", False, FRAMED, FRAMED_HEADERS),
        ("netstring", True, FRAMED, FRAMED_HEADERS),
        ("header", True, NUMBERED_HEADERS, NUMBERED_HEADERS),
        ("header", False, BARE, BARE_HEADERS),
        ("stamp", True, STAMPED_HEADERS, STAMPED_HEADERS),
        ("stamp", False, BARE, BARE_HEADERS),
        ("none", False, BARE, BARE_HEADERS),
        ("none", True, BARE, BARE_HEADERS),
    ],
)
def test_given_a_frame_and_headers_when_settled_then_messages_have_this_shape(
    frame: str, headers: bool, shape: int, headed_shape: int
) -> None:
    connection = stalled()
    connection.headers = headers
    connection.settle(frame)
    assert (connection.frame, connection.shape, connection.headed_shape) == (
        frame,
        shape,
        headed_shape,
    )
    assert connection.parser.headers is headers


@pytest.mark.parametrize(
    ("verbose", "pedantic", "chatty"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_given_verbose_or_pedantic_when_settled_then_the_link_is_chatty(
    verbose: bool, pedantic: bool, chatty: bool
) -> None:
    connection = stalled()
    connection.verbose, connection.pedantic = verbose, pedantic
    connection.settle("none")
    assert connection.chatty is chatty


@pytest.mark.parametrize("piece", [1, 100, 4095, 4096, 4097, 70_000, SEGMENT, SEGMENT + 1])
def test_given_pieces_of_any_size_then_they_wait_whole_and_in_order(
    plane: Plane, piece: int
) -> None:
    connection = stalled()
    said = [bytes([65 + turn % 26]) * piece for turn in range(40)]
    for one in said:
        assert plane.send_control(connection, one)
    assert connection.held() == 40 * piece == connection.waiting_bytes + connection.buffered()
    assert drained(connection) == b"".join(said)
    assert connection.held() == 0


def test_given_full_stores_then_each_ends_at_the_end_of_a_piece(plane: Plane) -> None:
    connection = stalled()
    for _ in range(1000):
        plane.send_control(connection, b"x" * 999 + b"\n")
    views: list[bytes] = []
    connection.drain(lambda view: views.append(bytes(view)), stalled=True)
    assert all(view[-1:] == b"\n" for view in views)
    sizes = [len(view) for view in views[:-1]]  # the last is not full
    assert sizes
    assert all(SEGMENT - 1000 <= size <= SEGMENT for size in sizes)


@pytest.mark.parametrize("extra", [0, 1])
def test_given_pieces_up_to_max_pending_then_they_are_taken_and_one_byte_more_is_too_slow(
    plane: Plane, extra: int
) -> None:
    connection = stalled(max_pending=4 * SEGMENT)
    for _ in range(3):
        assert plane.send_control(connection, b"x" * SEGMENT)
    assert plane.send_control(connection, b"x" * (SEGMENT + extra)) is (extra == 0)
    plane.release(None)
    session: Any = connection.session
    assert session.cuts == extra
    assert connection.closed is bool(extra)


def test_given_a_link_that_is_too_slow_then_it_is_cut_off_once_and_takes_no_more(
    plane: Plane,
) -> None:
    connection = stalled(max_pending=5000)
    for _ in range(9):
        plane.send_control(connection, b"x" * 4000)
    plane.release(None)
    plane.release(None)
    session: Any = connection.session
    assert session.cuts == 1
    connection.drop_output()
    assert not plane.send_control(connection, b"x" * 4000)
    assert connection.held() == 0


def test_given_a_closed_link_then_it_takes_nothing(plane: Plane) -> None:
    connection = stalled()
    connection.closed = True
    assert not plane.send_control(connection, b"x")
    plane.release(None)
    session: Any = connection.session
    assert session.cuts == 0


def test_given_output_that_is_dropped_then_what_comes_next_is_all_there_is(plane: Plane) -> None:
    connection = stalled()
    plane.send_control(connection, b"x" * (2 * SEGMENT))
    plane.send_control(connection, b"y")
    connection.drop_output()
    assert connection.held() == connection.waiting_bytes == 0
    assert drained(connection) == b""
    plane.send_control(connection, b"z")
    assert drained(connection) == b"z"


def test_given_a_store_that_is_taken_then_the_link_has_none_and_begins_another(
    plane: Plane,
) -> None:
    connection = stalled()
    plane.send_control(connection, b"x")
    assert len(connection.take_buffer()) >= 1
    assert len(connection.take_buffer()) == 0
    assert drained(connection) == b""
    plane.send_control(connection, b"y")
    assert drained(connection) == b"y"


def test_given_a_link_that_has_parted_then_it_holds_neither_session_nor_output(
    plane: Plane,
) -> None:
    connection = stalled()
    plane.send_control(connection, b"x")
    connection.part()
    assert connection.session is None
    assert connection.held() == 0


def test_given_a_buffer_of_which_a_view_is_left_then_it_is_not_used_again() -> None:
    spare, buffer = SpareBuffers(), bytearray(b"x" * 5000)
    with memoryview(buffer)[10:].toreadonly():
        spare.keep(buffer)
        assert (spare.buffers, spare.bytes) == ([], 0)
    spare.keep(buffer)
    assert (spare.bytes, bytes(buffer)) == (5000, b"x" * 5000)
    assert spare.take(4000, 6000) is buffer
