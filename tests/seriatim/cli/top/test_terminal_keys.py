"""Keys of a terminal: sequences, in any pieces, and what is none of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.cli.top.terminal_keys import TerminalKeys


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\x1b[A\x1bOB\x1b[5~\x1b[6~", ["up", "down", "pgup", "pgdn"]),
        (b"\x1b[1~\x1bOF\x1b[H", ["home", "end", "home"]),
        (b"q\x1b[1;5Ax\r\x7f", ["q", "x", "enter", "backspace"]),
        ("gr\xfc\xdf".encode(), ["g", "r", "\xfc", "\xdf"]),
        (b"\x1bq\x00\xff", ["escape", "q", "\ufffd"]),
        (b"\x1b\x1b[B", ["escape", "down"]),
        (b"\x1b[" + b"1" * 99 + b"q", []),
    ],
)
def test_given_what_a_terminal_sends_then_the_keys_are_found(data: bytes, keys: list[str]) -> None:
    assert TerminalKeys().feed(data) == keys


def test_given_a_lone_escape_then_it_is_a_key_when_nothing_follows() -> None:
    keys = TerminalKeys()
    assert (keys.feed(b"\x1b"), keys.is_open, keys.flush(), keys.is_open) == (
        *([], True, ["escape"]),
        False,
    )
    assert (keys.feed(b"\x1b["), keys.flush(), keys.feed(b"A")) == ([], [], ["A"])


@given(data=st.binary(max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_given_any_pieces_then_no_key_controls_and_the_rest_is_bounded(
    data: bytes, cuts: list[int]
) -> None:
    keys, found, at = TerminalKeys(), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += keys.feed(data[at:cut])
        at = max(at, cut)
    found += keys.flush()
    assert all(one.isprintable() and one for one in found)
    assert not keys.is_open
