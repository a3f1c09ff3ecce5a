"""`seriatim cardinal` from blocks to updates: produce, consume, simulate, against real brokers."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cardinal.block_lines import read, write
from cardinal.draft import Draft, apply
from cardinal.simulation import Plan, Simulation
from tests.seriatim.cli.command import COMMAND, COMMAND_S, environment, seriatim

COMMANDS = ("produce", "consume", "inspect", "simulate")
TOPICS = ("--topic", "a/=accounts", "--topic", "l/[0-9a-f]+/=logs")


def written(path: Path, blocks: list[Draft]) -> str:
    path.write_text("".join(write(block) + "\n" for block in blocks))
    return str(path)


def updates(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def followed(lines: list[dict[str, Any]]) -> tuple[list[str], dict[str, str]]:
    """The hashes and the state that these updates lead to."""
    path: list[dict[str, Any]] = []
    for line in lines:
        kept = len(path) - len(line["removed"])
        assert [one["hash"] for one in path[kept:]] == [one["hash"] for one in line["removed"]]
        path[kept:] = line["added"]
    state: dict[str, str] = {}
    for block in path:
        for key in block["deletes"]:
            state.pop(key, None)
        state.update(block["updates"])
    return [block["hash"] for block in path], state


@pytest.mark.parametrize("arguments", [[], ["--help"]], ids=["none", "--help"])
def test_given_no_command_of_cardinal_when_run_then_it_lists_them(arguments: list[str]) -> None:
    done = seriatim("cardinal", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert all(f" {command} ".encode() in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_given_a_command_of_cardinal_when_asked_for_help_then_there_are_examples(
    command: str, ask: Any
) -> None:
    status, out, _ = ask(command, "--help")
    assert status == 0
    assert out.count(f"seriatim cardinal {command}") >= 4


def test_given_a_file_of_blocks_when_produced_then_a_consumer_ends_with_its_state(
    ask: Any, flags: list[str], tmp_path: Path
) -> None:
    simulation = Simulation(Plan(blocks=30, forks=0.4, updates=6, seed=2))
    file = written(tmp_path / "blocks.jsonl", list(simulation.blocks()))
    schema = tmp_path / "chain.toml"
    schema.write_text('default = "blocks"\n[topics]\n"a/" = "accounts"\n"s/" = "storage"\n')
    status, out, err = ask("produce", file, "--schema", str(schema), *flags)
    assert (status, err) == (0, "")
    found = re.fullmatch(r"published (\d+) blocks in (\d+) messages, up to number (\d+)\n", out)
    assert found is not None
    assert int(found[1]) >= 30
    again = ask("produce", file, "--schema", str(schema), *flags)[1]
    assert again == out, "the broker knows them by their ids"
    status, out, err = ask("consume", "--once", *flags)
    assert (status, err) == (0, "")
    hashes, state = followed(updates(out))
    assert hashes == ["0x" + block.hash.hex() for block in simulation.chain]
    assert state == {key: "0x" + value.hex() for key, value in simulation.state.items()}


def test_given_a_reorg_in_a_file_when_produced_then_the_consumer_changes_its_branch(
    ask: Any, flags: list[str], tmp_path: Path
) -> None:
    lines = [
        '{"number": 1, "hash": "0x01", "parent": "0x00", "updates": {"a/1": "0x01"}}',
        '{"number": 2, "hash": "0x02", "parent": "0x01", "updates": {"a/1": "0x02"}}',
        '{"number": 3, "hash": "0x03", "parent": "0x02"}',
        '{"reorg": {"number": 1, "hash": "0x01", "weight": 3}, "blocks": ['
        '{"number": 2, "hash": "0x12", "parent": "0x01", "updates": {"a/1": "0x12"}}, '
        '{"number": 3, "hash": "0x13", "parent": "0x12", "weight": 4}]}',
        "",
        '{"number": 4, "hash": "0x14", "parent": "0x13", "weight": 5}',
    ]
    file = tmp_path / "blocks.jsonl"
    file.write_text("\n".join(lines))
    status, _, err = ask("produce", str(file), *TOPICS, *flags)
    assert (status, err) == (0, "")
    found = updates(ask("consume", "--once", *flags)[1])
    numbers = [
        (
            [int(one["hash"], 16) for one in line["removed"]],
            [int(b["hash"], 16) for b in line["added"]],
        )
        for line in found
    ]
    assert numbers == [
        ([], [1]),
        ([], [2]),
        ([], [3]),
        ([2, 3], [0x12, 0x13]),
        ([], [0x14]),
    ]


def test_given_a_simulation_of_three_bad_producers_when_consumed_then_nothing_is_missing(
    ask: Any, flags: list[str]
) -> None:
    plan = ["--blocks", "60", "--producers", "3", "--loss", "0.05", "--reorder", "50"]
    status, out, err = ask("simulate", *plan, "--duplicates", "0.2", "--seed", "5", *flags)
    assert (status, err) == (0, "")
    head = re.search(r"^head: block (\d+) (0x\w{64}); (\d+) keys$", out, re.MULTILINE)
    assert head is not None
    assert re.search(r"published \d+ blocks .*; \d+ forks, \d+ reorgs, \d+ messages lost", out)
    status, out, err = ask("consume", "--once", *flags)
    assert (status, err) == (0, "")
    hashes, state = followed(updates(out))
    assert (len(hashes) - 1, hashes[-1], len(state)) == (int(head[1]), head[2], int(head[3]))


def test_given_a_consumer_that_stops_anywhere_when_it_goes_on_then_no_update_is_missing(
    ask: Any, flags: list[str]
) -> None:
    ask("simulate", "--blocks", "40", "--forks", "0.3", "--reorder", "30", *flags)
    whole = updates(ask("consume", "--once", *flags)[1])
    got: list[dict[str, Any]] = []
    while True:
        resume = []
        if got:
            resume = ["--after-block", got[-1]["added"][-1]["hash"], "--token", got[-1]["token"]]
        status, out, err = ask("consume", "--once", "-n", "7", *resume, *flags)
        assert (status, err) == (0, "")
        if not out:
            break
        got += updates(out)
    assert followed(got) == followed(whole)


def test_given_a_block_to_begin_with_when_consumed_then_it_is_the_first(
    ask: Any, flags: list[str]
) -> None:
    ask("simulate", "--blocks", "20", "--forks", "0", *flags)
    out = ""
    for given in ("15", None):
        begin = given or updates(out)[0]["added"][0]["hash"]
        status, out, err = ask("consume", "--once", "--brief", "--from-block", begin, *flags)
        assert (status, err) == (0, "")
        found = updates(out)
        assert [line["added"][0]["number"] for line in found] == [15, 16, 17, 18, 19]
        assert type(found[0]["added"][0]["updates"]) is int
    status, out, err = ask("consume", "--once", "--from-block", "99", *flags)
    assert (status, out) == (1, "")
    assert err == "seriatim: block 99 is not in the stream, or is incomplete\n"


def test_given_a_tracked_prefix_when_consumed_then_only_its_keys_are_there(
    ask: Any, flags: list[str]
) -> None:
    simulation = Simulation(Plan(blocks=5, forks=0))
    ask("simulate", "--blocks", "5", "--forks", "0", *flags)
    _, out, _ = ask("consume", "--once", *TOPICS, "--track", "a/", *flags)
    state: dict[str, bytes] = {}
    for block in simulation.blocks():
        apply(state, block)
    expected = {key: "0x" + value.hex() for key, value in state.items() if key.startswith("a/")}
    assert followed(updates(out))[1] == expected


def test_given_a_lost_message_when_consumed_then_what_is_missing_is_reported(
    ask: Any, flags: list[str]
) -> None:
    ask("simulate", "--blocks", "9", "--forks", "0", "--loss", "0.015", "--seed", "4", *flags)
    status, _, err = ask("consume", "--once", *flags)
    assert status == 0
    assert re.search(
        r"^seriatim: block \d+ 0x\w{64} is incomplete; missing: 1 of ", err, re.MULTILINE
    )
    waiting = r"^seriatim: complete blocks without a parent: \d, the lowest is block \d \w{64}$"
    assert re.search(waiting, err, re.MULTILINE)


def test_given_a_consumer_that_follows_when_blocks_come_then_it_prints_them_until_it_is_stopped(
    flags: list[str],
) -> None:
    with subprocess.Popen(
        [COMMAND, "cardinal", "consume", "--brief", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == b"seriatim: following the chain\n"
        line = b'{"number": 7, "hash": "0x07", "parent": "0x06", "updates": {"a/1": "0x01"}}\n'
        done = seriatim("cardinal", "produce", "-", *TOPICS, *flags, stdin=line)
        assert done.stdout.startswith(b"published 1 blocks in 2 messages")
        first = json.loads(process.stdout.readline())
        assert (first["added"][0]["number"], first["unlinked"]) == (7, True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=COMMAND_S)
    assert (process.returncode, out, err) == (0, b"", b"")


def on_terminal(*arguments: str) -> tuple[int, bytes, bytes]:
    """Run a command whose standard error is a terminal: status, output, what was shown."""
    terminal, inside = os.openpty()
    env = {**environment(), "TERM": "xterm"}
    with (
        tempfile.TemporaryFile() as out,
        subprocess.Popen(
            [COMMAND, "cardinal", *arguments], stdout=out, stderr=inside, env=env
        ) as p,
    ):
        os.close(inside)
        shown = b""
        with contextlib.suppress(OSError):  # it is how a terminal ends
            while more := os.read(terminal, 1 << 16):
                shown += more
        os.close(terminal)
        status = p.wait(COMMAND_S)
        out.seek(0)
        return status, out.read(), shown


def test_given_a_terminal_when_there_is_much_to_do_then_there_is_a_bar(
    flags: list[str], tmp_path: Path
) -> None:
    blocks = list(Simulation(Plan(blocks=50, forks=0)).blocks())
    file = written(tmp_path / "blocks.jsonl", blocks)
    status, out, shown = on_terminal("produce", file, *flags)
    assert (status, out[:9]) == (0, b"published")
    assert b"publishing" in shown
    status, out, shown = on_terminal("consume", "--once", *flags)
    assert (status, out.count(b"\n")) == (0, 50)
    assert b"catching up" in shown


def test_given_lines_when_simulated_then_they_are_the_blocks_of_the_seed(
    ask: Any, tmp_path: Path
) -> None:
    lines, schema = tmp_path / "blocks.jsonl", tmp_path / "chain.toml"
    status, out, _ = ask(
        *("simulate", "--blocks", "12", "--seed", "9", "--lines", str(lines)),
        *("--schema", str(schema)),
    )
    assert status == 0
    assert out.startswith(f"wrote 12 blocks to {lines}; ")
    blocks = list(Simulation(Plan(blocks=12, seed=9)).blocks())
    assert [read(line) for line in lines.read_text().splitlines()] == blocks
    assert '"l/[0-9a-f]+/" = "logs"' in schema.read_text()
