"""The book of one instrument, which its orders decide: all copies are equal.

    python order_book.py nats://localhost:4222 apples                 follows; answers requests
    python order_book.py nats://localhost:4222 apples --until 88485   the book after that number

Orders come to `orders.apples`: {"side": "buy", "price": 101, "quantity": 10} or {"cancel": 88485},
the number of the order. A request to `books.apples` is answered with the book, as JSON.
"""

import argparse
import asyncio
import json
from bisect import insort

import seriatim


class OrderBook:
    """Orders that wait, the best first: [rank, number, price, quantity]."""

    def __init__(self) -> None:
        self.number = 0  # of the last order
        self.traded = 0
        self.sides: dict[str, list[list[int]]] = {"buy": [], "sell": []}

    def take(self, message: seriatim.Message) -> None:
        """Apply an order; what is no order changes nothing, in any copy."""
        self.number = message.number
        try:
            order = message.json()
        except (ValueError, RecursionError):
            return
        match order:
            case {"side": "buy" | "sell" as side, "price": int(price), "quantity": int(quantity)}:
                self._trade(side, price, quantity)
            case {"cancel": int(number)}:
                for waiting in self.sides.values():
                    waiting[:] = [one for one in waiting if one[1] != number]

    def _trade(self, side: str, price: int, left: int) -> None:
        """Trade with the best of the other side; let the rest wait."""
        other, rank = ("sell", -price) if side == "buy" else ("buy", price)
        waiting = self.sides[other]
        while left > 0 and waiting and waiting[0][0] + rank <= 0:
            quantity = min(left, waiting[0][3])
            self.traded += quantity
            left -= quantity
            waiting[0][3] -= quantity
            if not waiting[0][3]:
                del waiting[0]
        if left > 0:
            insort(self.sides[side], [rank, self.number, price, left])

    def to_json(self) -> bytes:
        sides = {side: [one[1:] for one in waiting] for side, waiting in self.sides.items()}
        return json.dumps({"number": self.number, "traded": self.traded} | sides).encode()


async def main() -> None:
    parser = argparse.ArgumentParser(description="Keep the book of an instrument.")
    parser.add_argument("server", help="nats://host:port")
    parser.add_argument("instrument")
    parser.add_argument("--until", type=int, metavar="NUMBER", help="print the book, and end")
    arguments = parser.parse_args()
    book, instrument = OrderBook(), arguments.instrument
    async with seriatim.connect(arguments.server, wait=True) as stream:

        async def answer(request: seriatim.Message) -> None:
            await stream.respond(request, book.to_json())

        if arguments.until is None:
            await stream.subscribe(f"books.{instrument}", answer, queue="books")
        async for order in stream.read(f"orders.{instrument}", start=1, until=arguments.until):
            book.take(order)
    print(book.to_json().decode())


if __name__ == "__main__":
    asyncio.run(main())
