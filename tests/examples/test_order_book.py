"""examples/order_book.py: live books, replayed books and a plain model of one are equal."""

import json
import subprocess
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

import seriatim
from tests.crash.trial import SEED
from tests.examples.services import (
    WAIT_S,
    Orders,
    Service,
    broker,
    journal_of,
    program,
    storm,
    until,
)
from tests.support.processes import STAND_IN, ServerProcess, url

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
NOT_ORDERS = (b"", b"[", b"[" * 100_000, b"7", b'{"side": "buy"}', b'{"cancel": "all"}', b"\xff")


def order(at: int) -> tuple[str, bytes]:
    chance = Random(at)
    if chance.random() < 0.05:
        return "orders.apples", chance.choice(NOT_ORDERS)
    if chance.random() < 0.2:
        return "orders.apples", b'{"cancel": %d}' % chance.randint(max(at - 20, 1), at + 1)
    side, price = chance.choice(("buy", "sell")), chance.randint(95, 105)
    wish = {"side": side, "price": price, "quantity": chance.randint(-1, 30)}
    return "orders.apples", json.dumps(wish).encode()


@dataclass
class Model:
    """A book as the rules say it, as slow as may be: nothing is kept in order."""

    number: int = 0
    traded: int = 0
    buy: list[list[int]] = field(default_factory=list)
    sell: list[list[int]] = field(default_factory=list)

    def take(self, number: int, payload: bytes) -> None:
        self.number = number
        try:
            wish = json.loads(payload)
        except (ValueError, RecursionError):
            return
        if not isinstance(wish, dict):
            return
        if isinstance(wish.get("cancel"), int):
            self.buy = [one for one in self.buy if one[0] != wish["cancel"]]
            self.sell = [one for one in self.sell if one[0] != wish["cancel"]]
        if "quantity" in wish:
            self.trade(wish["side"] == "buy", wish["price"], wish["quantity"])

    def trade(self, buys: bool, price: int, left: int) -> None:
        others = self.sell if buys else self.buy
        while left > 0:
            good = [one for one in others if (one[1] <= price if buys else one[1] >= price)]
            if not good:
                (self.buy if buys else self.sell).append([self.number, price, left])
                return
            best = min(good, key=lambda one: (one[1] if buys else -one[1], one[0]))
            quantity = min(left, best[2])
            left, best[2], self.traded = left - quantity, best[2] - quantity, self.traded + quantity
            others[:] = [one for one in others if one[2]]

    def book(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "traded": self.traded,
            "buy": sorted(map(list, self.buy), key=lambda one: (-one[1], one[0])),
            "sell": sorted(map(list, self.sell), key=lambda one: (one[1], one[0])),
        }


def replayed(server: ServerProcess, number: int) -> bytes:
    """The book as a program shows it that knows only the journal."""
    arguments = ("order_book.py", url(server), "apples", "--until", number)
    with program(*arguments, stdin=subprocess.DEVNULL) as process:
        out, said = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, said
    return out.rstrip(b"\n")


def asked(stream: seriatim.BlockingClient) -> bytes | None:
    """What one of the live books answers; None if none does at the moment."""
    try:
        return bytes(stream.request("books.apples", timeout=1).payload)
    except seriatim.BrokerError:
        return None


def test_given_kills_of_live_books_then_they_are_equal_to_the_journals() -> None:
    found: list[bytes] = []  # answers, as the storm goes on

    with broker() as server, seriatim.connect(url(server)) as stream:

        def number() -> int:
            answer = asked(stream)
            if answer is not None:
                found.append(answer)
            return newest()

        def newest() -> int:
            return max((int(json.loads(one)["number"]) for one in found[-3:]), default=0)

        arguments = ("order_book.py", url(server), "apples")
        with Service(*arguments) as one, Service(*arguments) as other:
            orders = Orders(url(server), order, ahead=10, taken=newest)
            orders.start()
            storm(server, "order book", number, [one, other])
            last = orders.end()[-1]
            until(lambda: number() == last, [one, other])
        answers = {json.loads(answer)["number"]: answer for answer in found}
        model = Model()
        begun = answers.pop(0, None)  # by a book that has read nothing yet
        assert begun is None or json.loads(begun) == model.book()
        for message in journal_of(server, "orders.apples"):
            model.take(message.number, bytes(message.payload))
            if message.number in answers:
                assert json.loads(answers[message.number]) == model.book()
        assert model.number == last
        for at in {*Random(SEED).choices(list(answers), k=2), last}:
            assert replayed(server, at) == answers[at]
