"""The live view on a terminal: it ticks, sorts, filters, and outlives a silent broker."""

import signal
import time

import pytest

from seriatim.cli.top.row_tables import CONNECTIONS
from tests.broker.monitor.test_monitor_nats import NatsMonitored
from tests.seriatim.cli.top.watched import (
    COLOUR,
    Watched,
    broker_with_pages,
    named,
    place,
    publish,
)
from tests.support.processes import STAND_IN
from tests.support.web import http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")
HOSTILE = r"\u001b]0;pwned\u0007\u001b[2J\u009b31m[bold red]x[/bold red]\u202eevil"


def test_given_messages_when_watched_then_the_number_and_the_rates_tick() -> None:
    with (
        broker_with_pages() as (broker, pages),
        named(broker, "desk") as client,
        Watched(pages, "-d", "0.2") as top,
    ):
        rows = top.await_text("last number 0")
        assert rows[0].startswith("seriatim 0.1.0  orders-1  last number 0  up ")
        publish(client, 500)
        rows = top.await_text("last number 500")
        publish(client, 500)
        top.await_screen(lambda rows: place(rows, "last number 1,000") == 0 and "desk" in rows[7])
        assert top.rows[-1].startswith("1 row  every 0.2s")


def test_given_two_clients_when_sorted_then_the_rows_stand_in_that_order() -> None:
    with (
        broker_with_pages() as (broker, pages),
        named(broker, "beta"),
        named(broker, "alpha"),
        Watched(pages) as top,
    ):
        top.await_screen(lambda rows: place(rows, "alpha") > 0 and place(rows, "out/s-") > 0)
        top.press("s" * (len(CONNECTIONS.columns) - 2))  # round to the second column
        rows = top.await_screen(lambda rows: any("name" in row and "+" in row for row in rows))
        assert 0 < place(rows, "alpha") < place(rows, "beta")
        top.press("S")
        top.await_screen(lambda rows: 0 < place(rows, "beta") < place(rows, "alpha"))


def test_given_a_filter_when_typed_then_only_such_rows_stand_until_it_is_dropped() -> None:
    with (
        broker_with_pages() as (broker, pages),
        named(broker, "alpha"),
        named(broker, "beta"),
        Watched(pages) as top,
    ):
        top.await_text("alpha")
        top.press("/", "BET")
        rows = top.await_screen(lambda rows: rows[-1].startswith("/BET") and "beta" in rows[7])
        assert place(rows, "alpha") == -1
        top.press("enter")
        top.await_text("filter BET")
        top.press("esc")
        top.await_screen(lambda rows: place(rows, "alpha") > 0 and place(rows, "filter BET") < 0)


def test_given_hostile_names_and_subjects_then_no_character_controls_the_terminal() -> None:
    subject = "\x1b[2Ja\x9bb.[bold]".encode()
    with (
        broker_with_pages() as (broker, pages),
        named(broker, HOSTILE, b"SUB %b 1\r\n" % subject),
        Watched(pages, size=(160, 40)) as top,
    ):
        top.await_text(r"\x1b]0;pwned\x07\x1b[2J")
        top.press("enter")
        rows = top.await_text(r"\x1b[2Ja\x9bb.[bold]")
        assert place(rows, r"\x9b31m[bold red]x[/bold red]\u202eevil") > 0
        top.press("5")
        top.await_screen(lambda rows: any(r"\x1b[2Ja\x9bb.[bold]" in row for row in rows[6:8]))
        assert b"\x07" not in top.seen
        assert b"\x1b]" not in top.seen
        assert b"\xc2\x9b" not in top.seen
        assert "\u202e".encode() not in top.seen


def test_given_a_restart_then_it_says_so_and_goes_on() -> None:
    with (
        broker_with_pages() as (broker, pages),
        named(broker, "desk") as client,
        Watched(pages, "-d", "0.2") as top,
    ):
        publish(client, 10)
        top.await_text("last number 10")
        broker.stop()
        top.await_text("no answer since ")
        broker.start(broker.port)
        rows = top.await_text("restarted 1x")
        top.await_screen(lambda rows: place(rows, "no answer") == -1)
        assert "last number 10" in rows[0]


def test_given_a_broker_that_hangs_then_it_says_since_when_and_keys_work() -> None:
    with broker_with_pages() as (broker, pages), Watched(pages, "-d", "0.2") as top:
        top.await_text("last number 0")
        broker.suspend()
        try:
            top.await_text("no answer since ")
            top.press("?")
            top.await_text("show only the rows that contain a text")
        finally:
            broker.signal(signal.SIGCONT)
        top.await_screen(lambda rows: place(rows, "no answer since ") == -1)


def test_given_another_size_then_it_fills_that() -> None:
    with broker_with_pages() as (broker, pages), named(broker, "desk"), Watched(pages) as top:
        rows = top.await_text("desk")
        assert place(rows, "language") == -1
        top.resize(160, 50)
        rows = top.await_screen(lambda rows: place(rows, "language") > 0 and "quit" in rows[49])
        top.resize(30, 6)
        top.await_screen(lambda rows: rows[0][:14] == "seriatim 0.1.0" and rows[5][:5] == "1 row")
        top.resize(5, 1)
        top.await_screen(lambda rows: rows == ["seria"])


def test_given_a_pause_then_nothing_moves_until_it_goes_on() -> None:
    with (
        broker_with_pages() as (broker, pages),
        named(broker, "desk") as client,
        Watched(pages, "-d", "0.2") as top,
    ):
        top.await_text("last number 0")
        top.press("p")
        top.await_text("paused")
        publish(client, 5)
        time.sleep(1)  # five intervals, in which there is no event to await
        assert "last number 0" in top.rows[0]
        top.press("r")
        top.await_screen(lambda rows: "last number 5" in rows[0] and "paused" in rows[-1])
        publish(client, 5)
        top.press("p")
        top.await_screen(lambda rows: "last number 10" in rows[0] and "paused" not in rows[-1])


def test_given_a_client_when_opened_then_its_subscriptions_are_there() -> None:
    subscribed = b"SUB orders.* team 1\r\nSUB quotes.> 2\r\n"
    with (
        broker_with_pages() as (broker, pages),
        named(broker, "desk", subscribed) as client,
        Watched(pages, "-d", "0.2") as top,
    ):
        top.await_text("desk")
        top.press("enter")
        rows = top.await_text("2 subscriptions")
        assert place(rows, "orders.*  queue team") > place(rows, "2 subscriptions")
        publish(client, 3, "quotes.eu")
        top.await_screen(lambda rows: any(" 3  quotes.>" in row for row in rows))
        client.leave()
        top.await_text("it has gone; these are its last figures")
        top.press("esc")
        top.await_text("no client is connected")
        top.press("2")
        top.await_text("Client Closed")


@pytest.mark.parametrize("key", ["3", "4", "5", "6", "7", "8"])
def test_given_no_such_things_then_the_view_says_so_or_shows_figures(key: str) -> None:
    words = {
        "3": "there are no streams",
        "4": "there are no consumers",
        "5": "there are no subscriptions",
        "6": "there are no feeds",
        "7": "this broker has no other members",
        "8": "http_req_stats",
    }
    with broker_with_pages() as (_, pages), Watched(pages) as top:
        top.await_text("last number 0")
        top.press(key)
        top.await_text(words[key])


def test_given_nats_server_then_what_it_has_is_shown_and_nothing_else() -> None:
    with (
        NatsMonitored() as server,
        named(server, "desk", b"SUB orders.> 1\r\n") as client,
        Watched(f"127.0.0.1:{http_port(server)}", "-d", "0.2") as top,
    ):
        rows = top.await_text("desk")
        assert rows[0].startswith("nats-server 2.15.1  ")
        assert place(rows, "last number") == place(rows, "journal") == -1
        publish(client, 100)
        top.await_screen(lambda rows: " 100 " in rows[1])
        for key, words in (("3", "no streams"), ("7", "no other members"), ("5", "$SYS.")):
            top.press(key)
            top.await_text(words)
        top.press("/", "orders", "enter")
        top.await_screen(lambda rows: rows[6].startswith("orders.> ") and "1 of 6" in rows[-1])
        top.press("1", "esc", "enter")
        top.await_text("1 subscription")


def test_given_no_color_then_there_is_none_and_otherwise_there_is() -> None:
    with broker_with_pages() as (_, pages):
        with Watched(pages) as top:
            top.await_text("last number 0")
        assert COLOUR.search(top.seen)
        with Watched(pages, env={"NO_COLOR": "1"}) as top:
            top.await_text("last number 0")
        assert not COLOUR.search(top.seen)


def test_given_a_dumb_terminal_then_lines_come_without_a_control_character() -> None:
    with (
        broker_with_pages() as (_, pages),
        Watched(pages, "-d", "0.2", env={"TERM": "dumb"}) as top,
    ):
        top.await_text("number")
        top.press("ctrl-c")
        assert top.end() == 0
    assert b"\x1b" not in top.seen
