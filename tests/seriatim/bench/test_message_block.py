"""What a publisher sends: whole operations, whose stamps go on from piece to piece."""

import re

import pytest

from seriatim.bench.message_block import PIECE_BYTES, MessageBlock, key_of, payload_of

OPERATION = re.compile(rb"PUB (\S+) (\d+)\r\n(.{8})(.{8})(.*?)\r\n(?=PUB |\Z)", re.DOTALL)


def sent(block: MessageBlock, count: int, start: float, interval: float) -> bytes:
    """The bytes of so many messages, in pieces."""
    data, done = b"", 0
    while done < count:
        size = block.stamp(done, count - done, start, interval)
        piece = bytes(block.stamped(done, size))
        assert len(piece) <= PIECE_BYTES or size == 1
        data += piece
        done += size
    assert done == count
    return data


@pytest.mark.parametrize(
    ("subjects", "size", "count"),
    [
        (["bench"], 16, 20_000),
        (["a", "a.bb", "a.bb.ccc"], 20, 20_000),
        ([f"many.{index}" for index in range(9000)], 16, 20_000),  # a round is more than a piece
        (["large"], PIECE_BYTES, 3),
    ],
    ids=["one subject", "three lengths", "many subjects", "large"],
)
def test_given_messages_when_sent_then_each_has_its_subject_key_and_time(
    subjects: list[str], size: int, count: int
) -> None:
    key = key_of(run=300, publisher=5)
    data = sent(MessageBlock(subjects, size, key), count, 7e9, 1500.0)
    at = 0
    for index in range(count):
        head = f"PUB {subjects[index % len(subjects)]} {size}\r\n".encode()
        due = 7_000_000_000 + 1500 * index
        stamp = (key + index).to_bytes(8) + due.to_bytes(8)
        whole = head + stamp + payload_of(size)[16:] + b"\r\n"
        assert data[at : at + len(whole)] == whole
        at += len(whole)
    assert at == len(data)


def test_given_no_interval_then_messages_have_no_time() -> None:
    block = MessageBlock(["bench"], 16, key_of(1, 0))
    assert block.stamp(0, 2, 7e9, 0.0) == 2
    found = OPERATION.findall(bytes(block.stamped(0, 2)))
    assert [(subject, time) for subject, _, _, time, _ in found] == [(b"bench", bytes(8))] * 2


def test_given_the_largest_run_and_publisher_then_a_key_is_positive_and_tells_them() -> None:
    key = key_of((1 << 15) - 1, 4095) + (1 << 36) - 1
    assert key == (1 << 63) - 1
