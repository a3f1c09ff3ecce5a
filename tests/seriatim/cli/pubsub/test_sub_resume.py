"""`seriatim sub` over a connection that breaks: it resumes without a duplicate or a gap."""

import json
import os
import pty
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.seriatim.cli.command import COMMAND, Subscriber, environment, seriatim
from tests.support.commands import COMMAND_S
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.relay import Relay


def publish(port: int, *subjects: str) -> None:
    """A message for each; its payload is its subject."""
    with RawClient(port, QUIET) as client:
        sent = b"".join(b"PUB %b %d\r\n%b\r\n" % (s, len(s), s) for s in map(str.encode, subjects))
        assert client.ask(sent) == []


def said(sub: Subscriber) -> str:
    """The next line on its standard error."""
    assert sub.process.stderr is not None
    line: str = sub.process.stderr.readline().decode()
    return line


def lines(sub: Subscriber, count: int) -> list[dict[str, Any]]:
    assert sub.process.stdout is not None
    return [json.loads(sub.process.stdout.readline()) for _ in range(count)]


def numbers(shown: list[dict[str, Any]]) -> list[int]:
    return [message["number"] for message in shown]


@pytest.mark.parametrize(
    ("begin", "words"),
    [
        (("--from", "2"), " from number 2"),
        (("--from", "2", "--to", "9"), " from number 2 to 9"),
        (("--since", "1d"), ""),
        (("--last",), ", the last message of each first"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_given_a_restart_of_the_broker_then_it_goes_on_after_what_was_shown(
    begin: tuple[str, ...], words: str
) -> None:
    with SeriatimServer("netstring") as broker:
        publish(broker.port, "b.x", "a.1", "b.x", "a.1", "a.2")
        url = f"nats://127.0.0.1:{broker.port}"
        arguments = ("a.*", *begin, "--json", "--url", url)
        with Subscriber(*arguments) as sub:
            assert sub.greeting.startswith(f"seriatim: listening to a.*{words}")
            first = [4, 5] if begin == ("--last",) else [2, 4, 5]
            if "--to" in begin:
                assert said(sub).startswith("seriatim: the last number given is 5: waiting for 6 t")
            assert numbers(lines(sub, len(first))) == first
            broker.stop()
            on = "from number 6 to 9" if "--to" in begin else "from number 6"
            gone = "the broker closed the connection"
            assert said(sub) == f"seriatim: {url}: {gone}; resuming {on} when the broker is back\n"
            broker.start(broker.port)
            publish(broker.port, "a.3", "b.x", "a.1", "a.1")  # while it may be away yet
            assert numbers(lines(sub, 3)) == [6, 8, 9]
            assert said(sub) == f"seriatim: connected again: listening {on}\n"
            if "--to" not in begin:
                publish(broker.port, "a.9")
                assert numbers(lines(sub, 1)) == [10]
                sub.process.send_signal(signal.SIGINT)
            assert sub.process.wait(60) == 0


def test_given_connections_that_break_all_the_time_then_each_number_is_shown_once() -> None:
    with SeriatimServer("netstring") as broker, Relay(broker.port) as relay:
        publish(broker.port, *(["a"] * 3000))
        relay.cut(down=20_000)  # some hundred messages, and then in the midst of one
        url = f"127.0.0.1:{relay.port}"
        done = seriatim("sub", "a", "--from", "1", "--to", "3000", "--url", url)
        shown = [int(line.split()[0]) for line in done.stdout.splitlines()]
        assert (done.returncode, shown) == (0, list(range(1, 3001)))
        assert relay.connections > 3


def test_given_a_count_and_a_broker_away_before_anything_was_shown_then_it_still_comes() -> None:
    with SeriatimServer("netstring") as broker:
        url = f"127.0.0.1:{broker.port}"
        with Subscriber("a", "--from", "1", "-n", "1", "--json", "--url", url) as sub:
            broker.restart()
            publish(broker.port, "a")
            assert numbers(lines(sub, 1)) == [1]
            assert sub.process.wait(60) == 0


def test_given_another_journal_afterwards_then_it_ends_and_says_why(tmp_path: Path) -> None:
    with SeriatimServer("netstring", store=tmp_path / "one") as broker:
        port = broker.port
        url = f"nats://127.0.0.1:{port}"
        publish(port, "a", "a")
        with Subscriber("a", "--from", "1", "--json", "--url", url) as sub:
            assert numbers(lines(sub, 2)) == [1, 2]
            broker.stop()
            (tmp_path / "one").rename(tmp_path / "away")
            broker.start(port)
            status, out, told = sub.end()
    assert (status, out) == (1, b"")
    assert f"seriatim: {url}: the broker has another journal now, " in told
    assert told.endswith("its numbers belong to other messages; start again with --from 1\n")


def test_given_a_broker_that_keeps_nothing_on_disk_then_a_restart_is_reported_as_such() -> None:
    with SeriatimServer("netstring", arguments=["--no-journal"]) as broker:
        publish(broker.port, "a")
        url = f"127.0.0.1:{broker.port}"
        with Subscriber("a", "--from", "1", "--json", "--url", url) as sub:
            assert numbers(lines(sub, 1)) == [1]
            broker.restart()
            status, _, told = sub.end()
    assert status == 1
    assert "it keeps messages only in memory, and was restarted" in told


def test_given_a_journal_that_lost_its_end_then_numbers_are_not_taken_for_others(
    tmp_path: Path,
) -> None:
    store, older = tmp_path / "store", tmp_path / "older"
    with SeriatimServer("netstring", store=store) as broker:
        port = broker.port
        publish(port, "a")
        broker.stop()
        store.rename(older)
        shutil.copytree(older, store)
        broker.start(port)
        publish(port, "a", "a")
        with Subscriber("a", "--from", "1", "--json", "--url", f"127.0.0.1:{port}") as sub:
            assert numbers(lines(sub, 3)) == [1, 2, 3]
            broker.stop()
            shutil.rmtree(store)
            older.rename(store)
            broker.start(port)
            status, _, told = sub.end()
    assert status == 1
    assert "number 3 was shown, but the broker's last number is now 1:" in told


def test_given_a_journal_that_was_cut_and_has_grown_then_it_says_that_numbers_are_others(
    tmp_path: Path,
) -> None:
    store, older = tmp_path / "store", tmp_path / "older"
    with SeriatimServer("netstring", store=store) as broker:
        port = broker.port
        publish(port, "a")
        broker.stop()
        shutil.copytree(store, older)
        broker.start(port)
        publish(port, "a")
        with Relay(port) as relay:
            arguments = ("a", "--from", "1", "--json", "--url", f"127.0.0.1:{relay.port}")
            with Subscriber(*arguments) as sub:
                assert numbers(lines(sub, 2)) == [1, 2]
                relay.sever()
                broker.stop()
                shutil.rmtree(store)
                older.rename(store)
                broker.start(port)
                publish(port, "a", "a")
                relay.heal()
                status, _, told = sub.end()
    assert status == 1
    assert "number 2 is another message now than the one that was shown:" in told


def test_given_a_restart_while_it_waits_for_a_number_then_it_goes_on_waiting() -> None:
    with SeriatimServer("netstring") as broker:
        publish(broker.port, "a", "a")
        url = f"127.0.0.1:{broker.port}"
        with Subscriber("a", "--from", "4", "--json", "--url", url) as sub:
            assert said(sub) == "seriatim: the last number given is 2: waiting for 4\n"
            broker.restart()
            assert "; resuming from number 4 when the broker is back" in said(sub)
            assert said(sub) == "seriatim: connected again: listening from number 4\n"
            publish(broker.port, "a", "b", "a")
            assert numbers(lines(sub, 1)) == [5]


def test_given_a_listener_whose_messages_have_no_frame_then_it_resumes_all_the_same() -> None:
    with SeriatimServer("none") as broker:
        publish(broker.port, "a")
        url = f"127.0.0.1:{broker.port}"
        with Subscriber("a", "--from", "1", "--json", "--url", url) as sub:
            assert numbers(lines(sub, 1)) == [1]
            broker.restart()
            publish(broker.port, "a")
            assert numbers(lines(sub, 1)) == [2]


@pytest.mark.parametrize("begin", [("--from", "1", "--reconnect", "0"), ()], ids=["past", "live"])
def test_given_a_subscriber_that_does_not_go_on_then_it_says_from_where_one_could(
    begin: tuple[str, ...],
) -> None:
    with SeriatimServer("netstring") as broker:
        url = f"nats://127.0.0.1:{broker.port}"
        with Subscriber("a", *begin, "--json", "--url", url) as sub:
            publish(broker.port, "a", "a")
            assert numbers(lines(sub, 2)) == [1, 2]
            broker.stop()
            gone = "the broker closed the connection; resume with --from 3"
            assert sub.end() == (1, b"", f"seriatim: {url}: {gone}\n")


def test_given_a_broker_that_never_comes_back_then_patience_ends() -> None:
    with SeriatimServer("netstring") as broker:
        url = f"nats://127.0.0.1:{broker.port}"
        with Subscriber("a", "--from", "1", "--reconnect", "0.5", "--url", url) as sub:
            broker.stop()
            status, out, told = sub.end()
    assert (status, out) == (1, b"")
    assert told.endswith("; resume with --from 1\n")


# The end that is there now


def test_given_a_range_beyond_what_is_there_then_it_is_reported_and_a_flag_ends_it() -> None:
    with SeriatimServer("netstring") as broker:
        publish(broker.port, *["a"] * 6)
        url = f"127.0.0.1:{broker.port}"
        with Subscriber("a", "--from", "1", "--to", "100", "--json", "--url", url) as sub:
            assert said(sub) == (
                "seriatim: the last number given is 6: waiting for 7 to 100; --until-now stops at"
                " the newest message\n"
            )
            assert numbers(lines(sub, 6)) == [1, 2, 3, 4, 5, 6]
        with Subscriber("a", "--from", "9", "--url", url) as sub:
            assert said(sub) == "seriatim: the last number given is 6: waiting for 9\n"
        since = "2026-01-01T00:00:00.000000000Z"
        for begin, words in (
            (("--from", "1"), "from number 1 to 6"),
            (("--from", "1", "--to", "100"), "from number 1 to 6"),
            (("--since", since), f"since {since} to number 6"),
        ):
            done = seriatim("sub", "a", *begin, "--until-now", "--json", "--url", url)
            assert done.returncode == 0
            assert numbers([json.loads(line) for line in done.stdout.splitlines()]) == [
                *range(1, 7)
            ]
            assert done.stderr.decode() == f"seriatim: listening to a {words}\n"
        done = seriatim("sub", "a", "--from", "2", "--to", "3", "-e", "--raw", "--url", url)
        assert done.stdout == b"aa"


@pytest.mark.parametrize("begin", [("--from", "9"), ("--since", "2200-01-01")])
def test_given_nothing_there_when_the_end_is_now_then_it_says_so(begin: tuple[str, str]) -> None:
    with SeriatimServer("netstring") as broker:
        done = seriatim("sub", "a", *begin, "-e", "--url", f"127.0.0.1:{broker.port}")
    assert (done.returncode, done.stdout) == (0, b"")
    told = done.stderr.decode()
    assert told.startswith("seriatim: nothing is there ")
    assert told.endswith(": the last number given is 0\n")


# Times


def test_given_many_messages_of_the_past_then_each_has_the_time_that_the_journal_has() -> None:
    with SeriatimServer("netstring") as broker:
        publish(broker.port, *["a", "b", "c"] * 700)
        url = f"127.0.0.1:{broker.port}"
        done = seriatim("sub", "a", "c", "--from", "1", "-e", "--json", "--url", url)
        kept = seriatim("journal", "cat", str(broker.store), "--json").stdout.splitlines()
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    times = {message["number"]: message["time"] for message in map(json.loads, kept)}
    assert len(shown) == 1400
    assert [message["time"] for message in shown] == [times[n] for n in numbers(shown)]


@pytest.mark.parametrize("begin", [("--from", "101"), ("--since", "2026-01-01")])
def test_given_a_terminal_for_errors_alone_when_read_to_an_end_then_a_bar_says_how_far(
    tmp_path: Path, begin: tuple[str, str]
) -> None:
    begun = int(begin[1]) if begin[0] == "--from" else 1
    total = f"{2001 - begun:,}"
    with SeriatimServer("netstring") as broker:
        publish(broker.port, *["a"] * 2000)
        command = [COMMAND, "sub", "a", *begin, "-e", "--json", "-s", f"127.0.0.1:{broker.port}"]
        ours, its = pty.openpty()
        env = environment({"TERM": "xterm"})
        with open(tmp_path / "out", "wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=its, env=env)
        os.close(its)
        shown = ""
        with suppress(OSError):  # EIO: nobody has the terminal any more
            while True:
                shown += os.read(ours, 1 << 16).decode(errors="replace")
        os.close(ours)
        assert process.wait(COMMAND_S) == 0
    out = (tmp_path / "out").read_bytes()
    assert len(out.splitlines()) == 2001 - begun
    assert b"\x1b" not in out
    assert shown.startswith("seriatim: listening to a")
    assert f"{total} of {total} numbers" in shown
