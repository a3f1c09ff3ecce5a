"""`seriatim stream` at a running broker, and at nats-server: what it shows, deletes and refuses."""

import json
import os
import pty
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.seriatim.cli.command import COMMAND, environment, refusal, seriatim
from tests.support.commands import Forked
from tests.support.jetstream import Dialogue, Step
from tests.support.processes import NatsServer, SeriatimServer, ServerProcess

API = "$JS.API."
USERS = """
[authorization]
[[authorization.users]]
user = "ops"
password = "sesame"
[[authorization.users]]
user = "narrow"
password = "sesame"
permissions = { publish = "orders.>", subscribe = "_INBOX.>" }
"""
ORDERS: dict[str, Any] = {"name": "ORDERS", "subjects": ["orders.>"], "description": "all orders"}
DESK: dict[str, Any] = {"name": "desk", "durable_name": "desk", "ack_policy": "explicit"}
PUSH: dict[str, Any] = {"name": "push", "deliver_subject": "to.me", "filter_subject": "orders.1"}
MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


def fill(server: ServerProcess) -> None:
    """Two streams: one with five messages, a durable consumer at work, and one for push."""
    dialogue = Dialogue(server.port)
    for stream in (ORDERS, {"name": "T", "subjects": ["t"]}):
        dialogue.ask(Step(f"{API}STREAM.CREATE.{stream['name']}", stream))
    for at in range(5):
        dialogue.ask(Step(f"orders.{at % 2}", "hello"))
    for one in (DESK, PUSH):
        body = {"stream_name": "ORDERS", "config": one}
        dialogue.ask(Step(f"{API}CONSUMER.CREATE.ORDERS.{one['name']}", body))
    dialogue.ask(Step(f"{API}CONSUMER.MSG.NEXT.ORDERS.desk", "2", answers=2))
    dialogue.close()


@pytest.fixture
def broker() -> Iterator[SeriatimServer]:
    with SeriatimServer("netstring", arguments=["--jetstream"]) as process:
        fill(process)
        yield process


def at(server: ServerProcess, *arguments: str) -> str:
    done = seriatim("stream", *arguments, "-s", f"127.0.0.1:{server.port}")
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def refused(server: ServerProcess, *arguments: str) -> str:
    said = refusal("stream", *arguments, "-s", f"127.0.0.1:{server.port}")
    return said.removeprefix(f"nats://127.0.0.1:{server.port}: ")


def cells(table: str) -> list[list[str]]:
    """The cells of a table, whose columns are two blanks apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


def assert_shown(server: ServerProcess) -> None:
    """What the commands show of the two streams, by any server."""
    _, orders, empty = cells(at(server, "ls"))
    assert orders[:7] == ["ORDERS", "orders.>", "5", "215", "1", "5", "2"]
    assert re.fullmatch(MOMENT, orders[7])
    assert empty == ["T", "t", "0", "0", "0", "0", "0", "-"]
    _, desk, push = cells(at(server, "consumers", "ORDERS"))
    assert desk[:9] == ["desk", "pull, durable", ">", "2", "0", "3", "2", "0", "0"]
    assert push == ["push", "push, ephemeral", "orders.1", "0", "-", "2", "-", "-", "-", "-"]
    facts = dict(line.split(None, 1) for line in at(server, "info", "ORDERS").splitlines())
    assert facts["messages"] == "5, of 215 bytes"
    assert facts["numbers"] == "1 to 5"
    assert facts["description"] == "all orders"
    assert facts["consumers"] == "2"
    lines = at(server, "info", "ORDERS", "desk")
    assert re.search(rf"^delivered up to     2, with 2 deliveries, {MOMENT}$", lines, re.MULTILINE)
    assert "\nunacknowledged      2 messages, 0 of them sent again\n" in lines
    assert "\npending             3 messages\n" in lines
    lines = at(server, "info", "ORDERS", "push")
    assert "\nlisteners           none\n" in lines
    assert "\ndelivered up to     nothing yet\n" in lines


def test_given_streams_then_they_and_their_consumers_are_shown(broker: SeriatimServer) -> None:
    assert_shown(broker)


def test_given_a_nats_server_then_its_streams_are_shown_alike(tmp_path: Path) -> None:
    with NatsServer({"jetstream": "enabled", "store_dir": str(tmp_path)}) as server:
        fill(server)
        assert_shown(server)
        assert at(server, "rm", "ORDERS", "--yes").startswith("deleted stream ORDERS")


def test_given_json_then_it_is_what_the_api_answers(broker: SeriatimServer) -> None:
    streams = json.loads(at(broker, "ls", "--json"))
    assert [one["config"]["name"] for one in streams] == ["ORDERS", "T"]
    info = json.loads(at(broker, "info", "ORDERS", "--json"))
    assert info["state"] == streams[0]["state"]
    consumers = json.loads(at(broker, "consumers", "ORDERS", "--json"))
    desk = json.loads(at(broker, "info", "ORDERS", "desk", "--json"))
    assert [one["name"] for one in consumers] == ["desk", "push"]
    assert desk["num_ack_pending"] == consumers[0]["num_ack_pending"] == 2
    assert json.loads(at(broker, "consumers", "T", "--json")) == []


def test_given_more_than_a_page_of_consumers_then_all_are_listed(broker: SeriatimServer) -> None:
    dialogue = Dialogue(broker.port)
    stays = {"inactive_threshold": 10**12}
    for number in range(300):
        body = {"stream_name": "T", "config": {"name": f"c{number}"} | stays}
        dialogue.ask(Step(f"{API}CONSUMER.CREATE.T.c{number}", body))
    names = {one["name"] for one in json.loads(at(broker, "consumers", "T", "--json"))}
    assert names == {f"c{number}" for number in range(300)}
    dialogue.close()


def test_given_rm_then_it_asks_and_deletes_what_was_named(broker: SeriatimServer) -> None:
    said = refused(broker, "rm", "ORDERS")
    assert said == "ORDERS has 5 messages, and 2 consumers; give --yes to confirm"
    said = refused(broker, "rm", "ORDERS", "desk")
    assert said == (
        "desk of ORDERS has 3 messages pending, and 2 unacknowledged; give --yes to confirm"
    )
    assert at(broker, "rm", "ORDERS", "push", "-y") == "deleted consumer push of ORDERS\n"
    assert answered(broker, "n", "rm", "ORDERS")
    assert len(cells(at(broker, "consumers", "ORDERS"))) == 2
    assert not answered(broker, "y", "rm", "ORDERS")
    assert [row[0] for row in cells(at(broker, "ls"))] == ["stream", "T"]
    assert refused(broker, "rm", "ORDERS", "-f").startswith("there is no stream ORDERS; ")


def answered(server: ServerProcess, answer: str, *arguments: str) -> int:
    """Run a command at a terminal, answer its question; return its exit status."""
    ours, theirs = pty.openpty()
    url = f"127.0.0.1:{server.port}"
    command = Forked(
        [COMMAND, "stream", *arguments, "-s", url],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(),
    )
    os.close(theirs)
    os.write(ours, answer.encode() + b"\n")
    status = command.wait()
    os.close(ours)
    return status


def test_given_wrong_names_then_the_error_says_what_is_there(broker: SeriatimServer) -> None:
    said = "there is no stream NONE; `seriatim stream ls` lists them"
    for arguments in (("info", "NONE"), ("consumers", "NONE"), ("info", "NONE", "c")):
        assert refused(broker, *arguments) == said
    assert refused(broker, "info", "T", "c") == (
        "there is no consumer c of T; `seriatim stream consumers T` lists them"
    )
    assert refused(broker, "info", "a.b") == '"a.b" cannot be the name of a stream'
    assert refused(broker, "rm", "T", ">") == '">" cannot be the name of a consumer'


def test_given_a_server_without_streams_then_the_error_names_the_flag() -> None:
    with SeriatimServer("none") as broker, NatsServer() as server:
        for one in (broker, server):
            assert refused(one, "ls") == (
                "there are no streams: the broker runs without -js (streams.enabled)"
            )
    with SeriatimServer("none", arguments=["--jetstream", "--no-journal"]) as broker:
        assert refused(broker, "ls") == "there are no streams: JetStream not enabled"


def test_given_a_user_without_rights_then_the_error_names_the_right(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(USERS)
    arguments = ["--jetstream", "-c", str(tmp_path / "broker.toml")]
    with SeriatimServer("none", arguments=arguments) as broker:
        narrow = ("--user", "narrow", "--password", "sesame")
        said = refused(broker, "ls", *narrow)
        assert "Permissions Violation".lower() in said.lower()
        assert said.endswith("; give this user the right to publish to $JS.API.>")
        ops = seriatim(
            *("stream", "ls", "-s", f"127.0.0.1:{broker.port}"),
            *("--user", "ops", "--password", "env:SECRET"),
            env={"SECRET": "sesame"},
        )
        assert ops.returncode == 0
        assert b"there are no streams yet" in ops.stderr
        assert "requires authentication" in refused(broker, "ls")
