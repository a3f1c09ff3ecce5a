"""The live page in a real browser: what a viewer sees, does, and is safe from."""

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import browser as browsers
from tests.support.browser import Visit
from tests.support.jetstream import Dialogue, Step
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient
from tests.support.web import http_port, monitored

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
VIEWS = ("overview", "connections", "streams", "subjects", "journal", "messages")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.browser() as started:
        yield started


@pytest.fixture(scope="module")
def broker() -> Iterator[SeriatimServer]:
    """A broker with a stream, whose names, subjects and payloads are those of an attacker."""
    with monitored("netstring", "--jetstream", "--http_messages") as process:
        dialogue = Dialogue(process.port)
        dialogue.ask(
            Step(
                "$JS.API.STREAM.CREATE.S",
                {"name": "S", "subjects": ["s.>"], "description": HOSTILE},
            )
        )
        dialogue.ask(
            Step(
                "$JS.API.CONSUMER.DURABLE.CREATE.S.C",
                {"stream_name": "S", "config": {"durable_name": "C"}},
            )
        )
        dialogue.close()
        options = {"verbose": False, "name": HOSTILE, "lang": HOSTILE, "version": "<b>1</b>"}
        client = RawClient(process.port, b"CONNECT %b\r\n" % json.dumps(options).encode())
        client.ask(b"SUB <b>subject</b> 1\r\n")
        text = HOSTILE.replace(" ", "-").encode()
        for at in range(20):
            body = b"%b %d" % (HOSTILE.encode(), at)
            client.ask(b"PUB s.%b.%d %d\r\n%b\r\n" % (text, at, len(body), body))
        yield process
        client.close()


@contextmanager
def visit(
    browser: Browser, broker: SeriatimServer, view: str = "", **context: object
) -> Iterator[Page]:
    """Look at a view; at the end nothing was complained about, and no other host was asked."""
    visiting = Visit(browser, **context)
    try:
        visiting.page.goto(f"http://127.0.0.1:{http_port(broker)}/#/{view}")
        yield visiting.page
        assert visiting.complaints == []
        assert visiting.hosts == {f"127.0.0.1:{http_port(broker)}"}
    finally:
        visiting.close()


def number_on(page: Page) -> int:
    return int(re.sub(r"\D", "", page.locator(".ticker").inner_text()) or 0)


def test_given_the_page_when_opened_then_charts_and_figures_are_there(
    browser: Browser, broker: SeriatimServer
) -> None:
    with visit(browser, broker) as page:
        expect(page.locator("#state")).to_have_attribute("data-state", "live")
        assert len(page.locator("canvas").all()) == 6
        assert page.locator(".tile").count() == 12


@pytest.mark.parametrize("view", VIEWS)
def test_given_names_subjects_and_payloads_of_an_attacker_then_they_are_only_text(
    browser: Browser, broker: SeriatimServer, view: str
) -> None:
    with visit(browser, broker, view) as page:
        expect(page.locator("#state")).to_have_attribute("data-state", "live")
        if view in ("connections", "messages", "subjects"):
            if view == "subjects":
                client = RawClient(broker.port, QUIET)
                text = HOSTILE.replace(" ", "-").encode()
                while not page.get_by_text("<script>alert(2)</script>").count():
                    client.ask(b"PUB %b 1\r\nx\r\n" % text)
                client.close()
            else:
                page.get_by_text("<script>alert(2)</script>").first.click()
                expect(page.locator(".detail")).to_be_visible()
        assert page.locator("main img, main script, main b:has-text('subject')").count() == 0
        assert page.evaluate("document.querySelectorAll('script').length") == 2


def test_given_messages_when_looked_at_then_the_number_ticks_and_rates_are_shown(
    browser: Browser,
) -> None:
    with monitored("netstring") as process, visit(browser, process) as page:
        client = RawClient(process.port, QUIET)
        expect(page.locator("#state")).to_have_attribute("data-state", "live")
        sent = 0
        while not re.search(r"[1-9]", page.locator(".tile").first.inner_text()):
            client.ask(b"PUB a 5\r\nhello\r\n" * 50)
            sent += 50
        expect(page.locator(".ticker")).to_have_text(re.compile(r"[^0-9]*".join(str(sent)) + "$"))
        assert number_on(page) == sent
        client.close()


def test_given_a_broker_that_restarts_then_the_page_goes_on_by_itself(browser: Browser) -> None:
    visiting = Visit(browser)
    with monitored("netstring") as process:
        port = http_port(process)
        process.command += ["-m", str(port)]  # the same port again
        visiting.page.goto(f"http://127.0.0.1:{port}/")
        state = visiting.page.locator("#state")
        expect(state).to_have_attribute("data-state", "live")
        first = visiting.page.locator("#name").get_attribute("data-id")
        process.kill()
        expect(state).to_have_attribute("data-state", "lost")
        process.start(-1)
        expect(state).to_have_attribute("data-state", "live")
        assert visiting.page.locator("#name").get_attribute("data-id") != first
    # Of requests that failed, only the browser itself complains.
    assert all("Failed to load resource" in one or "ERR_" in one for one in visiting.complaints)
    visiting.close()


def test_given_a_broker_that_hangs_then_the_page_says_so_until_it_goes_on(browser: Browser) -> None:
    visiting = Visit(browser)
    with monitored("netstring") as process:
        visiting.page.goto(f"http://127.0.0.1:{http_port(process)}/")
        state = visiting.page.locator("#state")
        expect(state).to_have_attribute("data-state", "live")
        process.suspend()
        expect(state).to_have_attribute("data-state", "lost")
        process.signal(signal.SIGCONT)
        expect(state).to_have_attribute("data-state", "live")
    visiting.close()


def test_given_a_number_when_searched_then_the_message_is_taken_apart_byte_by_byte(
    browser: Browser, broker: SeriatimServer
) -> None:
    client = RawClient(broker.port, HEADERS, b"SUB bytes 1\r\n")
    client.ask(b"")
    client.send(b"HPUB bytes 20 26\r\nNATS/1.0\r\nAb: 12\r\n\r\nh\xc3\xa9llo\r\n")
    sent = next(one for one in iter(client.operation, None) if one.verb == "HMSG")
    number = int(sent.payload.split(b":")[2].split(b",")[0])
    with visit(browser, broker, f"messages/{number}") as page:
        expect(page.locator("#frame")).to_be_visible()
        shown = bytes(
            int(cell, 16) for cell in page.locator(".hex td[class^=part-]").all_inner_texts()
        )
        assert shown == sent.payload  # the very bytes that a subscriber got
        expect(page.locator("#payload")).to_have_text("h\u00e9llo")
        expect(page.locator(".detail")).to_contain_text("Ab: 12")
    client.close()


def test_given_a_search_then_subjects_times_and_nothing_are_found(
    browser: Browser, broker: SeriatimServer
) -> None:
    with visit(browser, broker, "messages") as page:
        for text, found in (
            ("s.>", r"^20 messages$"),
            ("1d", r"messages$"),
            ("nothing.here", r"^nothing found$"),
            ("9999999", "the last number is"),
        ):
            page.locator("input[type=search]").fill(text)
            page.locator("#search").click()
            expect(page.locator("#found")).to_have_text(re.compile(found))


def test_given_one_who_follows_then_new_messages_appear(
    browser: Browser, broker: SeriatimServer
) -> None:
    with visit(browser, broker, "messages") as page:
        expect(page.locator("#found")).to_contain_text("message")
        page.get_by_label("subjects to search").fill("live.*")
        page.get_by_role("button", name="Follow").click()
        client = RawClient(broker.port, QUIET)
        while not page.get_by_text("now or never").count():
            client.ask(b"PUB live.1 12\r\nnow or never\r\nPUB dead.1 1\r\nx\r\n")
        assert page.get_by_text("dead.1").count() == 0
        client.close()


def test_given_users_then_the_page_asks_for_a_login(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(
        '[[authorization.users]]\nuser = "a"\npassword = "secret"\n'
    )
    with monitored("netstring", "--http_messages", "-c", str(tmp_path / "broker.toml")) as process:
        client = RawClient(process.port, b'CONNECT {"user":"a","pass":"secret"}\r\n')
        client.ask(b"PUB a 5\r\nhello\r\n")
        visiting = Visit(browser)
        page = visiting.page
        page.goto(f"http://127.0.0.1:{http_port(process)}/#/messages")
        page.get_by_label("user").fill("a")
        page.get_by_label("password, or token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#found")).to_contain_text("Authorization Violation")
        page.goto(f"http://127.0.0.1:{http_port(process)}/#/overview")
        page.goto(f"http://127.0.0.1:{http_port(process)}/#/messages")
        page.get_by_label("user").fill("a")
        page.get_by_label("password, or token").fill("secret")
        page.keyboard.press("Enter")
        expect(page.locator("tbody")).to_contain_text("hello")
        assert (
            page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])").count(
                "secret"
            )
            == 0
        )
        visiting.close()
        client.close()


def test_given_keys_then_views_filter_pause_and_theme_follow(
    browser: Browser, broker: SeriatimServer
) -> None:
    with visit(browser, broker, color_scheme="dark") as page:
        expect(page.locator("#state")).to_have_attribute("data-state", "live")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        for key, view in enumerate(VIEWS, 1):
            page.keyboard.press(str(key))
            expect(page.locator("nav a[aria-current]")).to_have_attribute("href", f"#/{view}")
        page.keyboard.press("2")
        expect(page.locator("nav a[aria-current]")).to_have_attribute("href", "#/connections")
        page.keyboard.press("/")
        page.keyboard.type("no such client")
        expect(page.get_by_text("No client is connected.")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("p")
        expect(page.locator("#state")).to_have_attribute("data-state", "paused")
        page.keyboard.press("p")
        expect(page.locator("#state")).to_have_attribute("data-state", "live")
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()


@pytest.mark.parametrize("view", VIEWS)
def test_given_a_phone_then_nothing_is_wider_than_it(
    browser: Browser, broker: SeriatimServer, view: str
) -> None:
    with visit(browser, broker, view, viewport={"width": 390, "height": 844}) as page:
        expect(page.locator("#state")).to_have_attribute("data-state", "live")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_given_a_hidden_page_then_it_keeps_no_connection(
    browser: Browser, broker: SeriatimServer
) -> None:
    with visit(browser, broker) as page:
        expect(page.locator("#state")).to_have_attribute("data-state", "live")
        page.evaluate("""() => {
            Object.defineProperty(document, 'hidden', { get: () => true, configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
        }""")
        expect(page.locator("#state")).to_have_attribute("data-state", "connecting")
        before = number_on(page)
        page.evaluate("""() => {
            delete document.hidden;
            document.dispatchEvent(new Event('visibilitychange'));
        }""")
        expect(page.locator("#state")).to_have_attribute("data-state", "live")
        assert number_on(page) >= before


def test_given_a_slow_consumer_that_was_closed_then_the_page_says_why(browser: Browser) -> None:
    with monitored("netstring", "--max_pending", "2MiB", "--no_journal") as process:
        deaf = RawClient(process.port, QUIET, b"SUB a 1\r\n")
        deaf.ask(b"")
        client = RawClient(process.port, QUIET)
        deadline = time.monotonic() + 60
        with visit(browser, process, "connections") as page:
            while not page.get_by_text("Slow Consumer (Pending Bytes)").count():
                client.ask(b"PUB a 500000\r\n%b\r\n" % bytes(500_000))
                assert time.monotonic() < deadline
        client.close()
        deaf.close()
