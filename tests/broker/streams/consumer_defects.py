"""Defects, planted one at a time: what a hurried developer might write. Each must be caught.

A defect is a consumer of which one rule is another. What is compiled cannot be changed from
outside; so a `Spoiled` one stands before the deliverer or its table, and the consumer and the
cursor ask that.
"""

from collections.abc import Callable
from typing import Any

from broker.streams.consumer_config import ConsumerConfig
from broker.streams.kept_consumer import KeptConsumer
from broker.streams.pull_requests import WaitingQueue
from broker.streams.stream_consumer import State, StreamConsumer

DEFECTS: dict[str, type[StreamConsumer]] = {}


def defect(name: str) -> Callable[[type[StreamConsumer]], type[StreamConsumer]]:
    def plant(kind: type[StreamConsumer]) -> type[StreamConsumer]:
        DEFECTS[name] = kind
        return kind

    return plant


class Spoiled:
    """Something whose methods are partly others: `found(true one)` returns them by name."""

    def __init__(self, one: Any, found: Callable[[Any], dict[str, Any]]) -> None:
        self.__dict__.update(one=one, others=found(one))

    def __getattr__(self, name: str) -> Any:
        others = self.__dict__["others"]
        return others[name] if name in others else getattr(self.__dict__["one"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["one"], name, value)


class Defective(StreamConsumer):
    """A consumer with another deliverer, or another table."""

    def deliverers(self, one: Any) -> dict[str, Any]:
        return {"table": Spoiled(one.table, self.tables)}

    def tables(self, one: Any) -> dict[str, Any]:
        return {}

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.deliverer: Any = Spoiled(self.deliverer, self.deliverers)


# Acks


@defect("an ack needs no time")
class Forgeable(Defective):
    def tables(self, one: Any) -> dict[str, Any]:
        def check(number: int, consumer: int, time: int, last: int) -> int:
            place = int(one.find(number))
            if place < 0:
                return place
            row = next(row for row in one.rows() if row[0] == number)
            return int(one.check(number, consumer, row[2], last))

        return {"check": check}

    def deliverers(self, one: Any) -> dict[str, Any]:
        def ack(number: int, consumer: int, time: int, now: int) -> int:
            row = next(row for row in one.table.rows() if row[0] == number)
            return int(one.ack(number, consumer, row[2], now))

        return {"ack": ack, **super().deliverers(one)}


@defect("an ack needs no consumer sequence")
class Careless(Defective):
    def tables(self, one: Any) -> dict[str, Any]:
        return {"check": lambda number, consumer, time, last: one.find(number)}

    def deliverers(self, one: Any) -> dict[str, Any]:
        def ack(number: int, consumer: int, time: int, now: int) -> int:
            own = one.table.number_at(one.table.find(number))
            return int(one.ack(number, own, time, now))

        return {"ack": ack, **super().deliverers(one)}


@defect("ack all acks one")
class Single(StreamConsumer):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.deliverer.acks_all = False


@defect("a nak makes room")
class Roomy(StreamConsumer):
    def _nak(self, *args: Any) -> None:
        super()._nak(*args)
        self.deliverer.most_pending += 1


@defect("the delay of a nak is ignored")
class Hasty(StreamConsumer):
    def _nak(self, place: int, number: int, consumer: int, said: str, now: int) -> None:
        super()._nak(place, number, consumer, "", now)


@defect("a nak waits for its ack_wait")
class Patient(Defective):
    def tables(self, one: Any) -> dict[str, Any]:
        return {"hurry": lambda place: 0}


@defect("progress changes nothing")
class Deaf(StreamConsumer):
    def ack(self, *args: Any) -> None:
        if args[3] != b"+WPI":
            super().ack(*args)


@defect("a terminated message comes again")
class Undead(StreamConsumer):
    def ack(self, *args: Any) -> None:
        if not args[3].startswith(b"+TERM"):
            super().ack(*args)


# Redeliveries


@defect("all deliveries wait as the first")
class Constant(StreamConsumer):
    def _take_config(self) -> None:
        super()._take_config()
        self.deliverer.backoff = self.deliverer.backoff[:1]


@defect("one delivery more than max_deliver")
class Generous(StreamConsumer):
    def _take_config(self) -> None:
        super()._take_config()
        self.most_deliveries += self.most_deliveries > 0


@defect("a nak of the last delivery brings one more")
class Nagging(StreamConsumer):
    def _nak(self, *args: Any) -> None:
        most, self.most_deliveries = self.most_deliveries, 0
        super()._nak(*args)
        self.most_deliveries = most


@defect("a lower max_deliver counts for what comes later")
class Lenient(Defective):
    def tables(self, one: Any) -> dict[str, Any]:
        return {"give_up": lambda most: None}


@defect("an update of the waits is for later deliveries")
class Slow(StreamConsumer):
    def _change_waits(self, *args: Any) -> None:
        pass


@defect("a deleted message stays unacked")
class Keeping(StreamConsumer):
    def _terminate(self, number: int, reason: str) -> None:
        pass


# Positions, and what is pending


@defect("one more than max_ack_pending")
class Full(StreamConsumer):
    def _take_config(self) -> None:
        super()._take_config()
        self.deliverer.most_pending += 1


@defect("a deleted message stays pending")
class Blind(StreamConsumer):
    def unmatched(self, number: int, now: int) -> None:
        if not self.deliverer.is_ahead(number):
            super().unmatched(number, now)


@defect("a deleted message was always pending")
class Subtracting(StreamConsumer):
    def unmatched(self, number: int, now: int) -> None:
        if not self.deliverer.is_ahead(number):
            self.deliverer.ahead -= 1
        super().unmatched(number, now)


@defect("what is counted counts for what is gone meanwhile")
class Twice(StreamConsumer):
    def unmatched(self, number: int, now: int) -> None:
        counting, self.counting = self.counting, 0
        super().unmatched(number, now)
        self.counting = counting


@defect("a new message is the position while counting")
class Jumping(StreamConsumer):
    def _count(self, last: int) -> None:
        super()._count(last)
        self.deliverer.is_counting = False


@defect("any count is the answer")
class Trustful(StreamConsumer):
    def counted(self, serial: int, count: int, now: int) -> None:
        super().counted(self.counting or -1, count, now)


@defect("a run skips one")
class Skipping(Defective):
    def deliverers(self, one: Any) -> dict[str, Any]:
        calls = []

        def skip(number: int) -> int:
            calls.append(number)
            return int(one.skip(number + (len(calls) % 20 == 19)))

        return {"skip": skip, **super().deliverers(one)}


@defect("a list ends with the stream's newest number")
class Short(StreamConsumer):
    def start_with(self, numbers: Any, last: int, now: int) -> None:
        super().start_with(numbers, last + 3, now)


@defect("retention leaves what is unacked")
class Lingering(Defective):
    def tables(self, one: Any) -> dict[str, Any]:
        return {"drop_below": lambda first: 0}


@defect("retention leaves the pending number")
class Stale(StreamConsumer):
    def moved(self, first: int, passed: int, last: int, now: int) -> None:
        super().moved(first, 0, last, now)


@defect("a reset keeps the consumer sequence")
class Continuing(StreamConsumer):
    def reset(self, *args: Any) -> int:
        number = self.deliverer.number
        sequence = super().reset(*args)
        self.deliverer.number = number
        return sequence


@defect("the floor is what was delivered")
class Floating(StreamConsumer):
    def numbers(self) -> dict[str, Any]:
        says = super().numbers()
        return {**says, "ack_floor": dict(says["delivered"])}


# Pull requests


@defect("a request gets one more than its batch")
class Giving(StreamConsumer):
    def request(self, inbox: bytes, owner: object, text: bytes, now: int) -> None:
        super().request(inbox, owner, text.replace(b'"batch":3', b'"batch":4'), now)


@defect("max_bytes counts no ack subject")
class Light(Defective):
    def deliverers(self, one: Any) -> dict[str, Any]:
        def offer(number: int, time: int, size: int, now: int) -> int:
            return int(one.offer(number, time, size - 40, now))

        return {"offer": offer, **super().deliverers(one)}


@defect("requests never expire")
class Eternal(StreamConsumer):
    def request(self, inbox: bytes, owner: object, text: bytes, now: int) -> None:
        later = text.replace(b'"expires":1', b'"expires":9').replace(b'"expires":3', b'"expires":9')
        super().request(inbox, owner, later, now)


@defect("whoever does not wait is told while others are held")
class Telling(StreamConsumer):
    def _serve_waiting(self, waiting: WaitingQueue, now: int) -> None:
        if self.state in (State.HELD, State.PARKED):
            waiting.end_all(b"NATS/1.0 404 No Messages\r\n\r\n")
        super()._serve_waiting(waiting, now)


@defect("a closed connection is served")
class Serving(StreamConsumer):
    def closed(self, owner: object, now: int) -> None:
        pass


@defect("a client that takes no more is served")
class Pushing(StreamConsumer):
    def parked(self, owner: object, is_full: bool, now: int) -> None:
        pass


@defect("a full batch completes twice")
class Silent(StreamConsumer):
    def follow(self, now: int) -> None:
        super().follow(now)
        super().follow(now)


# What holds it back


@defect("delivered while paused")
class Restless(StreamConsumer):
    def pause(self, until: int, wall: int, now: int) -> None:
        super().pause(until and wall + (until - wall) // 2, wall, now)


@defect("delivered without interest")
class Shouting(StreamConsumer):
    def interest(self, is_there: bool, now: int) -> None:
        super().interest(True, now)


@defect("nothing is above the window")
class Flooding(StreamConsumer):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.deliverer.window = None


@defect("any answer opens the window")
class Fooled(StreamConsumer):
    def flow(self, subject: bytes, now: int) -> None:
        window = self.deliverer.window
        super().flow(window.reply if window is not None else subject, now)


@defect("no rate")
class Rushing(StreamConsumer):
    def _take_config(self) -> None:
        super()._take_config()
        self.deliverer.limit = None


@defect("replay at once")
class Impatient(StreamConsumer):
    def _begin(self, last: int, now: int) -> None:
        super()._begin(last, now)
        self.deliverer.times = None


# Notes


class Forgetful(StreamConsumer):
    """A consumer whose notes lack a part."""

    lacks = ""

    def note(self) -> dict[str, Any]:
        return {name: value for name, value in super().note().items() if name != self.lacks}


for lacking in ("new", "gone", "again"):
    DEFECTS[f"notes lack what is {lacking}"] = type("Lacking", (Forgetful,), {"lacks": lacking})


@defect("the first note after a reset is a difference")
class Differing(StreamConsumer):
    def note(self) -> dict[str, Any]:
        return {name: value for name, value in super().note().items() if name != "whole"}


@defect("a restart forgets how often")
class Innocent(StreamConsumer):
    def restore(self, kept: KeptConsumer, last: int, now: int) -> None:
        other = KeptConsumer()
        other.apply(kept.note())
        other.pending = {one: (*row[:2], 1) for one, row in kept.pending.items()}
        super().restore(other, last, now)


@defect("a restart is behind what was unacked")
class Ahead(StreamConsumer):
    def restore(self, kept: KeptConsumer, last: int, now: int) -> None:
        super().restore(kept, last, now)
        self.deliverer.skip(kept.delivered + 2)


@defect("an update of the config is not taken")
class Old(StreamConsumer):
    def update(self, config: ConsumerConfig, last: int, now: int) -> None:
        self.decide(now)
