"""`seriatim cardinal produce` with messages that are too large, and with a slow pipe."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.seriatim.cli.command import COMMAND, COMMAND_S, environment, seriatim

LARGE = "0x" + "ab" * 2_000_000
LINES = [f'{{"number": {n}, "hash": "0x{n}", "parent": "0x{n - 1}"}}\n' for n in range(1, 4)]
TOPICS = ("--topic", "a/=accounts")


def numbers(flags: list[str]) -> list[int]:
    """What was published, by the numbers of the blocks."""
    done = seriatim("cardinal", "consume", "--once", "--brief", *flags)
    assert (done.returncode, done.stderr) == (0, b"")
    return [one["number"] for line in done.stdout.splitlines() for one in json.loads(line)["added"]]


CONTENTS: list[tuple[dict[str, Any], str]] = [
    ({"updates": {"a/0": "0x", "a/1": LARGE}}, "the key 'a/1' makes a message of 2000049 bytes"),
    ({"updates": {"b/1": LARGE}}, "the Batch, with all keys that match no pattern, makes a mess"),
    (
        {"batches": {"a/s": {"id": "0x1", "updates": {"a/s/1": LARGE}}}},
        "the key 'a/s/1' of a sub-batch makes a message of",
    ),
]


@pytest.mark.parametrize(("content", "words"), CONTENTS)
def test_given_a_file_with_a_message_that_is_too_large_when_produced_then_nothing_is_published(
    content: dict[str, object], words: str, flags: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "blocks.jsonl"
    file.write_text(LINES[0] + json.dumps({**json.loads(LINES[1]), **content}) + "\n" + LINES[2])
    done = seriatim("cardinal", "produce", str(file), *TOPICS, *flags)
    assert (done.returncode, done.stdout) == (1, b"")
    said = done.stderr.decode()
    assert said.startswith(f"seriatim: {file}: line 2: {words}")
    assert said.endswith("; the broker accepts at most 1048517\n")
    assert numbers(flags) == []


def test_given_a_pipe_with_a_message_that_is_too_large_when_produced_then_its_block_is_not_there(
    flags: list[str],
) -> None:
    line = json.dumps({**json.loads(LINES[1]), **CONTENTS[0][0]}) + "\n"
    text = (LINES[0] + line + LINES[2]).encode()
    with subprocess.Popen(
        [COMMAND, "cardinal", "produce", "-", *TOPICS, *flags],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        said = process.communicate(text, timeout=COMMAND_S)[1].decode()
    assert process.returncode == 1
    assert said.startswith("seriatim: standard input: line 2: the key 'a/1' makes a message of")
    assert said.endswith("; 1 block was published before that\n")
    assert numbers(flags) == [1]
    stored = seriatim("cardinal", "consume", "--once", *TOPICS, *flags).stderr
    assert stored == b"", "not even a part of the second block"


def test_given_lines_that_come_in_pieces_when_piped_then_each_is_published_once(
    flags: list[str],
) -> None:
    text = "".join(LINES).rstrip("\n").encode()
    with subprocess.Popen(
        [COMMAND, "cardinal", "produce", "-", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        for at in range(0, len(text), 7):
            os.write(process.stdin.fileno(), text[at : at + 7])
        out, _ = process.communicate(timeout=COMMAND_S)
    assert (process.returncode, out[:18]) == (0, b"published 3 blocks")
    assert numbers(flags) == [1, 2, 3]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_given_a_pipe_that_is_waited_for_when_interrupted_then_it_ends_at_once(
    number: signal.Signals, status: int, flags: list[str]
) -> None:
    following = subprocess.Popen(
        [COMMAND, "cardinal", "consume", "--brief", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    with (
        following,
        subprocess.Popen(
            [COMMAND, "cardinal", "produce", "-", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        ) as process,
    ):
        assert process.stdin is not None
        assert following.stdout is not None
        process.stdin.write(LINES[0].encode())
        process.stdin.flush()
        assert following.stdout.readline(), "the block is published, so the next line is awaited"
        process.send_signal(number)
        assert process.wait(COMMAND_S) == status
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
        following.send_signal(signal.SIGINT)
