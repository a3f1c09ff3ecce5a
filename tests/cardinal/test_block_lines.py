"""Blocks as lines of JSON: both ways, and the errors for invalid lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.block import Block
from cardinal.block_lines import read, update_fields, write
from cardinal.draft import Draft, ReorgDraft, SubBatchDraft
from cardinal.errors import LineError
from cardinal.update import ChainUpdate
from tests.cardinal import made
from tests.cardinal.stream import named

contents = st.dictionaries(made.keys, made.values, max_size=3)
deleted = st.lists(made.keys, max_size=3)
drafts = st.builds(
    Draft,
    *(made.numbers, made.hashes, made.hashes, st.integers(0, 2**256 - 1), contents, deleted),
    st.dictionaries(
        made.keys, st.builds(SubBatchDraft, made.hashes, contents, deleted), max_size=2
    ),
)


@given(drafts)
def test_given_any_block_when_written_then_it_is_read_as_it_was(draft: Draft) -> None:
    line = write(draft)
    assert "\n" not in line
    assert read(line) == read(line.encode()) == draft


def test_given_a_short_line_when_read_then_the_rest_is_what_it_must_be() -> None:
    line = '{"number": 3, "hash": "0x3", "parent": "0x0102"}'
    hash, parent = bytes(31) + b"\x03", bytes(30) + b"\x01\x02"
    assert read(line) == Draft(3, hash, parent, 3)


def test_given_a_reorg_when_read_then_its_blocks_are_there() -> None:
    line = '{"reorg": {"number": 1, "hash": "0x01", "weight": "0xff"}, "blocks": [%s]}'
    block = '{"number": 2, "hash": "0x02", "parent": "0x01"}'
    found = read(line % block)
    assert found == ReorgDraft(1, bytes(31) + b"\x01", 255, [found.blocks[0]])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "the line is not a JSON object"),
        ('{"number": 1, "number": 2}', "'number' occurs twice"),
        ('{"num": 1}', "no field 'num'"),
        ('{"number": true}', "number: true is not a number from 0"),
        ('{"number": 1.5}', "number: 1.5 is not a number"),
        ('{"number": 9223372036854775808}', "is not a number from 0 to 9223372036854775807"),
        ('{"number": 1, "hash": "01"}', 'hash: "01" is not hex after 0x'),
        ('{"number": 1, "hash": "0xzz"}', 'hash: "0xzz" is not hex after 0x'),
        ('{"number": 1, "hash": "0x"}', "hash: 0 bytes; a hash has 32"),
        ('{"number": 1, "hash": "0x%s"}' % ("00" * 33), "hash: 33 bytes"),
        ('{"number": 1, "hash": "0x01"}', "parent: is missing: give hex after 0x"),
        ('{"number": 1, "hash": "0x01", "parent": "0x0", "weight": -1}', "weight: -1 is no"),
        ('{"number": 1, "hash": "0x01", "parent": "0x0", "updates": []}', "updates: [] is no"),
        ('{"number": 1, "hash": "0x01", "parent": "0x0", "updates": {"a": 1}}', "updates['a']"),
        ('{"number": 1, "hash": "0x01", "parent": "0x0", "deletes": "a"}', "not a list of keys"),
        (
            '{"number": 1, "hash": "0x01", "parent": "0x0", "batches": {"s": {}}}',
            "batches['s'].id: is missing: give hex",
        ),
        ('{"reorg": {}, "number": 1}', "no field 'number'"),
        ('{"reorg": {}, "blocks": []}', "blocks: give the list"),
        (
            '{"reorg": {"number": 1, "hash": "0x1", "weight": 1}, "blocks": [{"number": 1}]}',
            "blocks[0].hash",
        ),
        ('{"reorg": {"number": 1, "hash": "0x1"}, "blocks": [0]}', "reorg.weight: nothing"),
    ],
)
def test_given_a_wrong_line_when_read_then_the_error_names_the_field(line: str, words: str) -> None:
    with pytest.raises(LineError) as caught:
        read(line)
    assert words in str(caught.value)


def test_given_an_update_when_written_then_a_program_can_read_it() -> None:
    block = Block(named("b"), 2, 2**60, named("a"), {"k": b"\x01", "a": b""}, {"z", "d"}, {})
    update = ChainUpdate([block], [block], named("a"), unlinked=True, beyond=True)
    found = json.loads(json.dumps(update_fields(update)))
    assert found["removed"] == [{"number": 2, "hash": "0x" + named("b").hex()}]
    assert found["added"][0] == {
        "number": 2,
        "hash": "0x" + named("b").hex(),
        "parent": "0x" + named("a").hex(),
        "weight": hex(2**60),
        "updates": {"a": "0x", "k": "0x01"},
        "deletes": ["d", "z"],
    }
    assert (found["unlinked"], found["beyond"]) == (True, True)
    brief = update_fields(ChainUpdate([block], [], named("a")), brief=True)
    assert (brief["added"][0]["updates"], brief["added"][0]["deletes"]) == (2, 2)
    assert set(brief) == {"added", "removed", "ancestor"}
