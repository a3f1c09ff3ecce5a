"""An account: its balance is the sum of its events, and never negative.

    python account.py nats://localhost:4222 anna

A line of input is a command, its id and an amount: `c-17 -30`. It is answered with a line,
`c-17 done 88485`, the number of the event, or `c-17 refused, 20 left`. A command that was not
answered, since the program was killed, may be given again: its event is there once.
"""

import argparse
import contextlib
import sys

import seriatim


def make_stream(stream: seriatim.BlockingClient) -> None:
    """Make the stream that `expect=` needs, unless it is there."""
    config = b'{"name": "ACCOUNTS", "subjects": ["accounts.*"]}'
    while True:
        with contextlib.suppress(seriatim.ConnectionLost):  # again, on the next connection
            answer = stream.request("$JS.API.STREAM.CREATE.ACCOUNTS", config).json()
            if "error" in answer:
                sys.exit(f"The stream ACCOUNTS cannot be made: {answer['error']['description']}")
            return


class Account:
    """The balance by the events, up to the last one that was read."""

    def __init__(self, stream: seriatim.BlockingClient, name: str) -> None:
        self.subject = f"accounts.{name}"
        self.balance = 0
        self.last = 0  # the number of the last event
        self.done: dict[str, int] = {}  # by the id of a command: the number of its event
        self._stream = stream
        self._events = stream.read(self.subject, start=1)

    def follow(self, number: int) -> None:
        """Read on, up to this event."""
        while self.last < number:
            event = next(self._events)
            self.balance += int(event.payload)
            self.done[event.headers["Nats-Msg-Id"]] = self.last = event.number

    def book(self, id: str, amount: int) -> str:
        """Decide on a command, again if somebody was faster; return the answer."""
        while id not in self.done:
            if self.balance + amount < 0:
                event = self._stream.last(self.subject)
                if event is None or event.number == self.last:
                    return f"refused, {self.balance} left"
                number = event.number
            else:
                try:
                    payload = b"%d" % amount
                    number = self._stream.publish(self.subject, payload, id=id, expect=self.last)
                except seriatim.WrongLastNumber as wrong:
                    if wrong.last <= self.last:
                        raise  # events were deleted, so there is no balance any more
                    number = wrong.last
            self.follow(number)
        return f"done {self.done[id]}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep an account.")
    parser.add_argument("server", help="nats://host:port, of `seriatim serve -js`")
    parser.add_argument("name", help="of the account")
    arguments = parser.parse_args()
    with seriatim.connect(arguments.server, wait=True) as stream:
        make_stream(stream)
        account = Account(stream, arguments.name)
        for id, amount in map(str.split, sys.stdin):
            print(id, account.book(f"{arguments.name}/{id}", int(amount)), flush=True)


if __name__ == "__main__":
    main()
