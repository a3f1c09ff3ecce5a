"""Takes the pictures of the documentation, with the tests' browser: `make pictures`.

A broker with a market on it: three gateways publish orders, four books and a risk desk read them,
and a report reads too slowly. The pictures are of one moment, so they differ from run to run.
"""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import expect

from tests.support.browser import Visit, browser
from tests.support.jetstream import Dialogue, Step
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer
from tests.support.raw import RawClient
from tests.support.web import http_port, monitored

PICTURES = ROOT / "docs" / "pictures"
SIZE = {"width": 1280, "height": 820}
SYMBOLS = ("BTC", "ETH", "SOL", "XRP", "ADA", "DOGE")
ROUND_S = 0.05
SECONDS = 45


def client(broker: SeriatimServer, name: str, *subjects: str) -> RawClient:
    options = {"verbose": False, "name": name, "lang": "python3", "version": "2.16.0"}
    subs = b"".join(b"SUB %b %d\r\n" % (one.encode(), at) for at, one in enumerate(subjects, 1))
    return RawClient(broker.port, b"CONNECT %b\r\n" % json.dumps(options).encode(), subs)


@contextmanager
def market(broker: SeriatimServer) -> Iterator[None]:
    """Trade in the background."""
    dialogue = Dialogue(broker.port)
    for name, subject in (("ORDERS", "orders.>"), ("TRADES", "trades.*")):
        dialogue.ask(Step(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [subject]}))
        config = {"stream_name": name, "config": {"durable_name": "settlement"}}
        dialogue.ask(Step(f"$JS.API.CONSUMER.DURABLE.CREATE.{name}.settlement", config))
    readers = [client(broker, f"book {at}", "orders.>", "trades.*") for at in range(4)]
    readers.append(client(broker, "risk", "orders.eu.>"))
    slow = client(broker, "nightly report", ">")
    gateways = {name: client(broker, f"gateway {name}") for name in ("eu", "us", "asia")}
    ended = threading.Event()

    def trade() -> None:
        dice, number = random.Random(1), 0
        while not ended.wait(ROUND_S):
            for name, gateway in gateways.items():
                out = b""
                for _ in range(dice.randint(20, 90)):
                    number += 1
                    kind = dice.choice(("new", "new", "new", "cancel", "fill"))
                    symbol = dice.choice(SYMBOLS)
                    order = {"id": number, "symbol": symbol, "price": dice.randint(100, 9999) / 100}
                    body = json.dumps(order).encode()
                    subject = f"orders.{name}.{symbol}.{kind}".encode()
                    out += b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body)
                    if kind == "fill":
                        out += b"PUB trades.%b %d\r\n%b\r\n" % (symbol.encode(), len(body), body)
                gateway.send(out)

    def read(reader: RawClient) -> None:
        while not ended.is_set():
            reader.operation()

    threads = [threading.Thread(target=read, args=(one,), daemon=True) for one in readers]
    threads.append(threading.Thread(target=trade))
    for thread in threads:
        thread.start()
    yield
    ended.set()
    threads[-1].join()
    for one in (slow, *gateways.values()):
        one.close()
    dialogue.close()


def main() -> None:
    """Take all pictures of the live page."""
    PICTURES.mkdir(exist_ok=True)
    arguments = ("--jetstream", "--http_messages", "--server_name", "trading-1")
    with monitored("netstring", *arguments) as broker, market(broker), browser() as started:
        for theme in ("light", "dark"):
            visiting = Visit(started, viewport=SIZE, color_scheme=theme)
            page = visiting.page
            page.goto(f"http://127.0.0.1:{http_port(broker)}/")
            expect(page.locator("#state")).to_have_attribute("data-state", "live")
            if theme == "light":
                page.wait_for_timeout(SECONDS * 1000)  # for the charts to have something to show
            page.wait_for_timeout(2000)
            page.screenshot(path=PICTURES / f"live-page-{theme}.png")
            if theme == "light":
                page.goto(f"http://127.0.0.1:{http_port(broker)}/#/messages")
                page.locator("tbody tr").nth(3).click()
                page.locator("#frame").wait_for()
                page.screenshot(path=PICTURES / "live-page-messages.png")
            visiting.close()


if __name__ == "__main__":
    main()
