"""The events of a chain, in words."""

from cardinal.update import Stalled, Unlinked, Why


def test_given_what_was_given_up_when_printed_then_it_says_which_and_why() -> None:
    event = Unlinked(b"\xaa" * 32, 7, bytes(32), Why.OLD)
    assert str(event) == f"block 7 {'aa' * 32} not taken: its number is too far below the head"


def test_given_a_chain_that_stands_still_when_printed_then_it_says_what_it_waits_for() -> None:
    assert str(Stalled(b"\xaa" * 32, 9, 70, 1)) == (
        "the chain is stalled at block 1: 70 blocks wait for the parent of block 9,"
        f" {'aa' * 32}, which did not come. Publish that block again, or start again with an empty"
        " state"
    )
    refused = Stalled(b"\xaa" * 32, 9, 2, 8, Why.OLD, heavier=True)
    assert str(refused) == (
        "the chain is stalled at block 8: 2 heavier blocks wait for the parent of block 9,"
        f" {'aa' * 32}, which was refused: its number is too far below the head. Give a larger"
        " threshold, and start again with an empty state"
    )
