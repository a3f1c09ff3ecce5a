"""`seriatim cardinal inspect`: messages of a journal and of a capture, and what blocks lack."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cardinal.message_codec import encode
from cardinal.messages import (
    Batch,
    Delete,
    Entry,
    Message,
    Ping,
    Reorg,
    SubBatchHeader,
    SubBatchMessage,
    Update,
)
from cardinal.transport.capture import CaptureReader, CaptureWriter
from seriatim.cli import main
from tests.seriatim.cli.cardinal.conftest import Ask
from tests.support.processes import SeriatimServer

B, C, ID = b"\xb0" * 32, b"\xc0" * 32, bytes(31) + b"\x07"
ENTRIES = {"a/": Entry(count=2), "s/": Entry(sub_batch=ID), "x": Entry(b"1")}
MESSAGES: list[tuple[str, Message]] = [
    ("blocks", Batch(B, 7, 9, C, ENTRIES)),
    ("accounts", Update(B, "a/1", b"hello")),
    ("accounts", Delete(B, "a/2")),
    ("accounts", Delete(B, "a/2")),
    ("storage", SubBatchHeader(B, ID, 1)),
    ("storage", SubBatchMessage(B, ID, 0, ["d"], {"u": b""})),
    ("blocks", Ping(C, b"now")),
    ("reorg.b0-c0", Reorg(B, 7)),
]
SHOWN = """\
         1  blocks               Batch           b0b0b0b0 block 7 on c0c0c0c0: 2 of 'a/', \
sub-batch 's/', 1 keys here
         2  accounts             Update          b0b0b0b0 'a/1' 5 bytes
         3  accounts             Delete          b0b0b0b0 'a/2'
         4  accounts             Delete          b0b0b0b0 'a/2' (a copy)
         5  storage              SubBatchHeader  b0b0b0b0 1 messages in 0x07
         6  storage              SubBatchMessage b0b0b0b0 0x07 0: 1 deleted, 1 set \
-> block 7 is whole
         7  blocks               Ping
         8  reorg.b0-c0          Reorg           b0b0b0b0 at block 7
"""


@pytest.fixture
def inspect(ask: Ask) -> Ask:
    """Run the command in this process: its status, what it printed, and what it said."""
    return partial(ask, "inspect")


def capture(path: Path, messages: list[tuple[str, Message]]) -> str:
    with path.open("wb") as file:
        rows = [(topic, *encode(one), at) for at, (topic, one) in enumerate(messages, 1)]
        CaptureWriter(file, "stream").write(rows)
    return str(path)


def test_given_a_capture_when_inspected_then_there_is_a_line_for_each_message(
    inspect: Any, tmp_path: Path
) -> None:
    assert inspect(capture(tmp_path / "c", MESSAGES)) == (0, SHOWN, "")


def test_given_a_reorg_on_an_ordinary_topic_when_inspected_then_it_is_reported(
    inspect: Any, tmp_path: Path
) -> None:
    path = capture(tmp_path / "c", [*MESSAGES, ("blocks", Reorg(B, 7))])
    status, out, _ = inspect(path, "--missing")
    assert status == 1
    assert out == (
        f"MISPLACED in 0x{B.hex()}: a Reorg of block 7 on an ordinary topic, where it changes"
        " nothing: it belongs on a topic reorg.*\n"
    )


def test_given_incomplete_blocks_when_inspected_then_what_they_lack_comes_last(
    inspect: Any, tmp_path: Path
) -> None:
    some = [MESSAGES[0], MESSAGES[2], MESSAGES[4], ("accounts", Update(C, "a/9", b""))]
    path = capture(tmp_path / "c", some)
    status, out, err = inspect(path, "--missing")
    assert (status, err) == (1, "")
    assert out == (
        f"MISSING block 7 0x{B.hex()}, 3 messages from number 1 on: "
        "without 1 of 'a/', 1 of sub-batch 0x07\n"
        f"MISSING a block 0x{C.hex()}, 1 message from number 4 on: without its Batch\n"
    )
    assert inspect(path)[1].endswith(out)
    assert inspect(path, "--missing", "--block", "0xc0")[1] == out.splitlines(True)[1]
    first, second = map(json.loads, inspect(path, "--missing", "--json")[1].splitlines())
    assert first == {
        "type": "missing",
        "hash": "0x" + B.hex(),
        "block": 7,
        "messages": 3,
        "first": 1,
        "missing": {
            "batch": False,
            "prefixes": {"a/": 1},
            "headers": [],
            "sub_batches": {"0x" + ID.hex(): 1},
        },
    }
    assert second["missing"]["batch"] is True


def test_given_wrong_and_misplaced_messages_when_inspected_then_they_are_reported(
    inspect: Any, tmp_path: Path
) -> None:
    path = tmp_path / "c"
    capture(path, [*MESSAGES[:1], ("storage", SubBatchHeader(B, C, 1)), *MESSAGES[1:6]])
    with path.open("ab") as file:
        record = b"1:9,6:blocks,3:\x03ab,0:,"
        file.write(b"%d:%b," % (len(record), record))
    status, out, _ = inspect(str(path))
    assert status == 1
    assert "MISPLACED in 0x" + B.hex() + ": the block has no sub-batch 0x" + C.hex() in out
    assert "         9  blocks               WRONG key, byte 3: the key ends inside its hash" in out
    found = [json.loads(line) for line in inspect(str(path), "--json")[1].splitlines()]
    assert [one["type"] for one in found if "error" in one] == ["misplaced", "wrong"]


def test_given_json_when_inspected_then_every_field_is_there(inspect: Any, tmp_path: Path) -> None:
    status, out, _ = inspect(capture(tmp_path / "c", MESSAGES), "--json")
    assert status == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["type"] for one in found] == [type(one).__name__ for _, one in MESSAGES]
    assert found[0] == {
        "number": 1,
        "topic": "blocks",
        "type": "Batch",
        "hash": "0x" + B.hex(),
        "block": 7,
        "weight": "9",
        "parent": "0x" + C.hex(),
        "counts": {"a/": 2},
        "sub_batches": {"s/": "0x" + ID.hex()},
        "inline": 1,
    }
    assert (found[3]["copy"], found[5]["whole"], found[1]["bytes"]) == (True, 7, 5)


def test_given_numbers_when_inspected_then_only_those_are_read(
    inspect: Any, tmp_path: Path
) -> None:
    _, out, _ = inspect(capture(tmp_path / "c", MESSAGES), "--from", "2", "--to", "3")
    assert [line.split()[0] for line in out.splitlines()] == ["2", "3", "MISSING"]


def test_given_a_journal_when_inspected_then_applications_are_apart(
    inspect: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = tmp_path / "blocks.jsonl"
    lines.write_text('{"number": 1, "hash": "0x01", "parent": "0x00", "updates": {"a/1": "0x"}}')
    with SeriatimServer("netstring", store=tmp_path / "store") as broker:
        url = ["-s", f"127.0.0.1:{broker.port}"]
        for name in ("one", "two"):
            assert main(["cardinal", "produce", str(lines), "-a", name, *url]) == 0
        assert main(["pub", "cardinal.one.blocks", "no envelope", *url]) == 0
        assert main(["pub", "other.one.blocks", "not ours", *url]) == 0
        capsys.readouterr()
        status, out, _ = inspect(str(tmp_path / "store"))
        assert status == 1
        assert [line.split()[1] for line in out.splitlines()] == [
            *("one.blocks", "two.blocks", "one.blocks")
        ]
        assert "WRONG payload, byte 0: a netstring has no length" in out
        status, out, _ = inspect(str(tmp_path / "store"), "-a", "two")
        assert (status, out.count("\n")) == (0, 1)
        assert out.endswith("-> block 1 is whole\n")


def test_given_a_journal_when_written_to_a_capture_then_a_consumer_goes_on_after_it(
    inspect: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines, target = tmp_path / "blocks.jsonl", str(tmp_path / "old.capture")
    blocks = [f'{{"number": {n}, "hash": "0x{n}", "parent": "0x{n - 1}"}}\n' for n in range(1, 6)]
    with SeriatimServer("netstring", store=tmp_path / "store") as broker:
        url = ["-s", f"127.0.0.1:{broker.port}"]
        for part, name in ((blocks[:3], "one"), (blocks[:1], "two"), (blocks[3:], "one")):
            lines.write_text("".join(part))
            assert main(["cardinal", "produce", str(lines), "-a", name, *url]) == 0
        assert main(["pub", "cardinal.one.blocks", "no envelope", *url]) == 0
        capsys.readouterr()
        store = str(tmp_path / "store")
        status, out, err = inspect(store, "-a", "one", "--capture", target)
        left_out = " (1 left out: not of Cardinal Streams)"
        assert (status, out, err) == (0, f"wrote 5 messages{left_out} to {target}\n", "")
        assert inspect(store, "-a", "one", "--to", "3", "--capture", target)[0] == 0
        assert main(["cardinal", "consume", "--capture", target]) == 0
        past = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        place = ["--after-block", past[-1]["added"][-1]["hash"], "--token", past[-1]["token"]]
        assert main(["cardinal", "consume", "--once", "-a", "one", *place, *url]) == 0
        present = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [block["number"] for update in past + present for block in update["added"]]
    assert found == [1, 2, 3, 4, 5]
    status, _, err = inspect(store, "--capture", target)
    assert (status, err) == (
        64,
        "seriatim: --capture: a capture holds one application; give --application\n",
    )


def test_given_a_capture_when_part_of_it_is_written_to_another_then_it_is_that_part(
    inspect: Any, tmp_path: Path
) -> None:
    whole, part = capture(tmp_path / "c", MESSAGES), str(tmp_path / "part")
    assert inspect(whole, "--from", "3", "--block", "0xb0", "--capture", part)[0] == 0
    with open(part, "rb") as file:
        reader = CaptureReader(file)
        assert reader.stream == "stream"
        assert [row[3] for row in reader] == [3, 4, 5, 6, 8]
    status, _, err = inspect(whole, "--capture", whole)
    assert (status, err) == (
        64,
        f"seriatim: {whole}: cannot be read and written at the same time\n",
    )
    assert inspect(whole)[0] == 0
    status, _, err = inspect(whole, "--capture", str(tmp_path / "no" / "where"))
    assert (status, err.endswith("cannot be written: No such file or directory\n")) == (1, True)
