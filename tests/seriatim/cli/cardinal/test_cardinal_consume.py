"""`seriatim cardinal consume`: tokens, reorgs below the beginning, captures, crowds."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cardinal.producer import Messages, Producer
from cardinal.schema import Schema
from cardinal.transport.capture import CaptureWriter
from cardinal.transport.publisher import Publisher
from tests.clients.served import run
from tests.seriatim.cli.cardinal.conftest import Ask


def lines(*blocks: tuple[int, int, int]) -> str:
    """Number, hash and parent of each."""
    return "".join(
        f'{{"number": {number}, "hash": "0x{hash:02x}", "parent": "0x{parent:02x}"}}\n'
        for number, hash, parent in blocks
    )


def produced(ask: Ask, path: Path, text: str, flags: list[str]) -> None:
    path.write_text(text)
    status, _, err = ask("produce", str(path), *flags)
    assert (status, err) == (0, "")


def updates(out: str) -> list[tuple[list[int], list[int]]]:
    """The hashes removed and added, line by line."""
    found: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    return [
        (
            [int(one["hash"], 16) for one in line["removed"]],
            [int(one["hash"], 16) for one in line["added"]],
        )
        for line in found
    ]


GATHERED = (
    r"^seriatim: (?:(\d+) more like this, the last one: )?block (\d+) \w{64} not taken:"
    r" its number is too far below the head$"
)
CHAIN = [(number, number, number - 1) for number in range(1, 6)]


def test_given_a_token_at_the_end_when_consumed_once_then_there_is_nothing(
    ask: Ask, flags: list[str], tmp_path: Path
) -> None:
    produced(ask, tmp_path / "a.jsonl", lines(*CHAIN), flags)
    token = json.loads(ask("consume", "--once", *flags)[1].splitlines()[-1])["token"]
    journal = token.partition("=")[0]
    found = ask("produce", str(tmp_path / "a.jsonl"), *flags)[1]
    last = int(found.rpartition(" ")[2])
    begin = ["consume", "--once", "--after-block", "0x05", *flags, "--token"]
    assert ask(*begin, f"{journal}={last + 1}") == (0, "", "")
    assert ask(*begin, f"{journal}={last + 2}") == (
        1,
        "",
        f"seriatim: --token: it continues at number {last + 2}, but the journal {journal} ends at"
        f" {last}: the journal was cut, or the token belongs to another\n",
    )


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        ("3", [([], [3]), ([], [4]), ([], [5]), ([3, 4, 5], [0x13, 0x14, 0x15, 0x16]), ([], [7])]),
        ("0x04", [([], [4]), ([], [5]), ([4, 5], [0x14, 0x15, 0x16]), ([], [7])]),
        ("6", [([], [0x16]), ([], [7])]),
        ("0x14", [([], [0x14, 0x15, 0x16]), ([], [7])]),
    ],
)
def test_given_a_reorg_below_the_first_block_when_consumed_then_what_is_printed_is_consistent(
    begin: str,
    expected: list[tuple[list[int], list[int]]],
    ask: Ask,
    flags: list[str],
    tmp_path: Path,
) -> None:
    # The branch comes from its end, so that it overtakes the chain at once.
    branch = [(number, 0x10 + number, 0x10 + number - 1) for number in range(6, 2, -1)]
    fork = [*branch, (2, 0x12, 1), (7, 7, 0x16)]
    produced(ask, tmp_path / "a.jsonl", lines(*CHAIN, *fork), flags)
    status, out, err = ask("consume", "--once", "--brief", "--from-block", begin, *flags)
    assert (status, err) == (0, "")
    assert updates(out) == expected
    for line in map(json.loads, out.splitlines()):
        assert line["ancestor"] == line["added"][0]["parent"]


def test_given_a_reorg_that_ends_below_the_first_block_when_consumed_then_it_is_taken_back(
    ask: Ask, flags: list[str], tmp_path: Path
) -> None:
    heavy = '{"number": 2, "hash": "0x12", "parent": "0x01", "weight": 99}\n'
    later = '{"number": 3, "hash": "0x13", "parent": "0x12", "weight": 99}\n'
    produced(ask, tmp_path / "a.jsonl", lines(*CHAIN) + heavy + later, flags)
    out = ask("consume", "--once", "--from-block", "3", *flags)[1]
    assert updates(out) == [([], [3]), ([], [4]), ([], [5]), ([3, 4, 5], []), ([], [0x13])]


def test_given_late_copies_of_blocks_that_were_applied_when_consumed_then_nothing_is_reported(
    ask: Ask, flags: list[str], tmp_path: Path
) -> None:
    count = 1500
    chain = [(number, number, number - 1) for number in range(1, count)]
    produced(ask, tmp_path / "a.jsonl", lines(*chain), flags)
    rest = ["--topic", "a/=b", "--default", "again", *flags]  # as others, so they come again
    assert ask("produce", str(tmp_path / "a.jsonl"), *rest)[0] == 0
    status, out, err = ask("consume", "--once", "--brief", *flags)
    assert (status, len(out.splitlines()), err) == (0, count - 1, "")


def test_given_many_blocks_that_are_too_old_when_consumed_then_they_are_reported_as_one(
    ask: Ask, flags: list[str], tmp_path: Path
) -> None:
    count, below = 1500, 1300
    chain = [(number, number, number - 1) for number in range(1, count)]
    forks = [(number, 0x10000 + number, number - 1) for number in range(1, below)]
    produced(ask, tmp_path / "a.jsonl", lines(*chain, *forks), flags)
    status, out, err = ask("consume", "--once", "--brief", *flags)
    assert (status, len(out.splitlines())) == (0, count - 1)
    told = re.findall(GATHERED, err, re.MULTILINE)
    assert len(told) == err.count("\n") < count / 10, "one in a second"
    assert sum(int(more or 1) for more, _ in told) == below - 1
    assert int(told[-1][1]) == below - 1


async def sent(url: str, application: str, messages: Sequence[Messages]) -> None:
    """Each in its turn: the broker gives them numbers in this order."""
    async with Publisher(application, url) as publisher:
        for one in messages:
            await publisher.send(one)


def late(first: int, *numbers: int) -> list[Messages]:
    """These blocks on each other, and then the rest of the first: a sub-batch."""
    producer, id = Producer(Schema({"a/": "accounts"}, "block")), b"\x07" * 32
    found = [
        producer.block(
            number,
            number.to_bytes(32, "big"),
            (number - 1).to_bytes(32, "big") if number else b"\xee" * 32,
            number,
            {"a/1": b"x"},
            (),
            {"s/": id} if number == first else {},
        )
        for number in (first, *numbers)
    ]
    return [*found, producer.sub_batch(first.to_bytes(32, "big"), id, (), {"s/1": b"x"})]


@pytest.mark.parametrize(
    ("first", "begin", "expected"),
    [
        (0, ["--from-block", "0"], [0, 1, 2, 3]),
        (0, [], [0, 1, 2, 3]),
        (0, ["--from-block", "2"], [2, 3]),
        (40, ["--from-block", "40"], [40, 41, 42, 43]),
        (40, ["--from-block", f"0x{40:02x}"], [40, 41, 42, 43]),
    ],
)
def test_given_a_block_whose_child_is_whole_first_when_consumed_then_it_is_printed(
    first: int,
    begin: list[str],
    expected: list[int],
    ask: Ask,
    flags: list[str],
) -> None:
    _, application, _, address = flags
    messages = late(first, first + 1, first + 2, first + 3)
    run(sent(f"nats://{address}", application, messages))
    status, out, err = ask("consume", "--once", *begin, *flags)
    assert (status, err) == (0, "")
    assert [(removed, *added) for removed, added in updates(out)] == [
        ([], number) for number in expected
    ]


def test_given_a_parent_that_is_not_whole_when_consumed_then_it_is_reported_and_comes_after_it(
    ask: Ask, flags: list[str]
) -> None:
    _, application, _, address = flags
    *messages, rest = late(40, 41, 42)
    run(sent(f"nats://{address}", application, messages))
    begin = ["consume", "--once", "--from-block", "40"]
    status, out, err = ask(*begin, *flags)
    assert status == 0
    assert updates(out) == [([], [41]), ([], [42])]
    assert re.search(r"^seriatim: block 40 0x\w+ is incomplete; missing: .*sub-batch", err)
    last = json.loads(out.splitlines()[-1])
    run(sent(f"nats://{address}", application, [rest]))
    place = ["--after-block", last["added"][-1]["hash"], "--token", last["token"]]
    status, out, err = ask("consume", "--once", *place, *flags)
    assert (status, err) == (0, "")
    assert updates(out) == [([41, 42], [40, 41, 42])]
    assert updates(ask(*begin, *flags)[1]) == [([], [40]), ([], [41]), ([], [42])]


def test_given_a_parent_that_is_not_whole_when_nobody_is_to_wait_then_what_is_there_is_printed(
    ask: Ask, flags: list[str]
) -> None:
    _, application, _, address = flags
    *messages, _ = late(40, 41, 42)
    run(sent(f"nats://{address}", application, messages))
    status, out, _ = ask("consume", "--hold", "0", "--count", "2", *flags)
    assert status == 0
    assert updates(out) == [([], [41]), ([], [42])]


def test_given_a_reorg_on_an_ordinary_topic_when_consumed_then_it_is_reported(
    ask: Ask, flags: list[str]
) -> None:
    _, application, _, address = flags
    channel = Producer(Schema({}, "block")).reorg(41, (41).to_bytes(32, "big"), 9, b"2" * 32)
    ((_, reorg),) = channel.begin().items()
    run(sent(f"nats://{address}", application, [*late(41, 42), {"block": reorg}]))
    status, out, err = ask("consume", "--once", *flags)
    assert (status, len(out.splitlines())) == (0, 2)
    assert err.endswith(
        ": NotOnChannel: a Reorg of block 41 on an ordinary topic, where it changes nothing: it"
        " belongs on a topic reorg.*\n"
    )


def test_given_a_capture_when_consumed_then_its_updates_are_those_of_the_broker(
    ask: Ask, flags: list[str], tmp_path: Path
) -> None:
    plan = ["simulate", "--blocks", "30", "--forks", "0.4", "--seed", "3"]
    file = str(tmp_path / "a.capture")
    assert ask(*plan, "--capture", file)[0] == 0
    assert ask(*plan, *flags)[0] == 0
    status, out, err = ask("consume", "--capture", file)
    assert (status, err) == (0, "")
    assert updates(out) == updates(ask("consume", "--once", *flags)[1])
    fifth = [json.loads(line) for line in out.splitlines()][4]
    place = ["--after-block", fifth["added"][-1]["hash"], "--token", fifth["token"]]
    assert updates(ask("consume", "--capture", file, *place)[1]) == updates(out)[5:]
    assert len(ask("consume", "--capture", file, "-n", "3")[1].splitlines()) == 3


def test_given_a_reorg_that_is_not_complete_when_consumed_once_then_it_is_reported(
    ask: Any, tmp_path: Path
) -> None:
    channel = Producer(Schema({}, "block")).reorg(1, b"1" * 32, 9, b"2" * 32)
    sent = [*channel.begin().items(), *channel.block(2, b"2" * 32, b"1" * 32, 10).items()]
    rows = [(topic, *row, at) for at, (topic, some) in enumerate(sent, 1) for row in some]
    with (tmp_path / "a.capture").open("wb") as file:
        CaptureWriter(file, "s").write(rows)
    status, out, err = ask("consume", "--capture", str(tmp_path / "a.capture"))
    assert (status, out) == (0, "")
    assert err.endswith(f"the reorg of topic {channel.topic} was announced but is not complete\n")
