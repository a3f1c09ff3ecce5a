"""What makes two blocks the same."""

from dataclasses import replace

from tests.cardinal.stream import block


def test_given_a_block_when_its_messages_stood_elsewhere_then_it_is_the_same() -> None:
    one = block("b", 7, "a")
    assert replace(one, token={"topic": 5}) == replace(one, token={"other": 6})
    assert replace(one, last=9, size=1000) == one
    assert replace(one, updates={"a/1": b"1"}) != one


def test_given_a_block_when_printed_then_number_and_hash_are_there() -> None:
    assert str(block("b", 7, "a")) == "block 7 " + "2e" * 31 + "62"
