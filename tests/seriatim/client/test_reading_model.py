"""Reading from a broker that fails in every way, with a model of what a reader may then say.

Whatever breaks, and whenever: within one journal the numbers rise; each number up to the end is
handed over once, or reported as lost; another journal is reported, and nothing else is; and no
connection stays open.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seriatim.client import stream_reading
from seriatim.client.aio_wire import Wire, WireOptions, open_wire
from seriatim.client.credentials import NOBODY
from seriatim.client.errors import JournalChanged, Lost, Position
from seriatim.client.server_address import ServerAddress
from seriatim.client.stream_message import Message
from seriatim.client.stream_reading import Reader, StreamReading, read_wish
from seriatim.client.tls import DEFAULT_TLS
from testkit.model_subject import tokens_match
from tests.clients.served import run
from tests.support.depth import examples
from tests.support.small_broker import Plan, SmallBroker, SmallJournal

Item = Message | Lost | JournalChanged


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """Pauses that are as short as a test needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_reading, "RETRY_MIN", 0.0005)
        patch.setattr(stream_reading, "RETRY_MAX", 0.002)
        patch.setattr(stream_reading, "BEHIND_SECONDS", 0.1)
        patch.setattr(stream_reading, "BEHIND_STEP", 0.0005)
        yield


def reader_of(port: int, subject: str = ">", **wanted: Any) -> Reader[Any]:
    """A reader of a small broker, without a client."""
    options = WireOptions("test", NOBODY, DEFAULT_TLS, 5, 60, 2, {"frame": "stamp"})

    async def opened() -> Wire:
        return await open_wire(ServerAddress("127.0.0.1", port), options, numbered_only=True)

    given: dict[str, Any] = dict.fromkeys(("start", "since", "until"))
    wish = read_wish(*(subject,), **{**given, "last": False, "or_now": False, **wanted})
    reading = StreamReading(wish, opened, None, "_INBOX")
    reading.begin_at(wish.position)
    return Reader(reading, None, True)


class Model:
    """What was handed over, against what the broker has."""

    def __init__(self, broker: SmallBroker, subject: str, start: int | None) -> None:
        self.journal = broker.journal
        self.subject = subject.encode()
        self.start = start
        self.journal_id = ""
        self.number = 0  # up to which all is accounted for
        self.uid = 0  # of the message with that number; 0: none
        self.changes = 0

    def take(self, item: Item) -> None:
        if isinstance(item, JournalChanged):
            self.change(item)
        elif isinstance(item, Lost):
            self.lose(item)
        else:
            self.message(item)

    def change(self, item: JournalChanged) -> None:
        """Legitimate only if what was handed over is not in the journal that is there."""
        # Before the first message, it is the place where the reader has begun.
        assert item.before.number == self.number or not self.number
        here = self.journal.given.get(item.before.number)
        same = item.before.journal == self.journal.id and here is not None
        assert not (same and (not self.uid or here.uid == self.uid)), "it had not changed"
        assert item.now.journal == self.journal.id
        self.journal_id = item.now.journal
        self.number, self.uid, self.start = 0, 0, None
        self.changes += 1

    def lose(self, item: Lost) -> None:
        assert item.first <= item.last
        self.check_gap(item.first)
        assert not any(number in self.journal.kept for number in range(item.first, item.last + 1))
        self.number, self.uid = item.last, 0

    def message(self, item: Message) -> None:
        self.check_same()
        self.check_gap(item.number)
        kept = self.journal.given[item.number]
        assert item.payload == kept.payload
        assert (item.subject, item.time_ns) == (kept.subject, kept.time_ns)
        self.number, self.uid = item.number, kept.uid

    def check_same(self) -> None:
        """What was handed over last is still there; else a change was kept silent.

        Of a number that is deleted nobody can say whether it was that message.
        """
        here = self.journal.given.get(self.number)
        is_deleted = self.number < self.journal.first
        same = here is not None and here.uid == self.uid
        assert not self.uid or is_deleted or same, "it has changed"

    def check_gap(self, number: int) -> None:
        """Nothing that matches lies between, neither now nor before it was deleted."""
        assert number > self.number
        begin = self.number + 1
        if not self.number:  # the beginning of all: with the first message, if nothing else is said
            begin = self.start or min(number, self.journal.first)
        there = self.journal.given
        between = [there[at] for at in range(begin, number) if at in there]
        missing = [
            one.number for one in between if tokens_match(self.subject, one.subject.encode())
        ]
        assert not missing, f"{missing} were never handed over, before {number}"


# What may happen. Counts are small: what matters is the order of events.
counts = st.integers(0, 6)
live: st.SearchStrategy[Callable[[SmallJournal], None]] = st.one_of(
    counts.map(lambda count: lambda journal: journal.publish(count)),
    counts.map(lambda count: lambda journal: journal.retain(count)),
)
restarts: st.SearchStrategy[Callable[[SmallJournal], None]] = st.one_of(
    live,
    live,
    st.just(lambda journal: journal.reopen()),
    st.tuples(counts, counts).map(lambda both: lambda journal: journal.lose_end(*both)),
    counts.map(lambda count: lambda journal: journal.replace(count)),
)
plans = st.builds(
    Plan,
    before=st.lists(restarts, max_size=2),
    during=st.lists(st.tuples(st.integers(0, 8), live), max_size=3).map(
        lambda actions: sorted(actions, key=lambda action: action[0])
    ),
    cut_at=st.one_of(st.integers(1, 1500), st.integers(300, 3000), st.just(1 << 62)),
    lag=st.sampled_from([0, 0, 0, 1, 2]),
    chunk=st.sampled_from([1 << 62, 1 << 62, 1, 7, 100]),
    repeats=st.sampled_from([0, 0, 0, 1, 2, 5]),
    reset=st.booleans(),
)
# How the user reads: one after the other, in batches, with an anext that is cancelled after so many
# turns of the loop, or with a new reader at the position of the old one.
steps = st.lists(
    st.one_of(
        st.just(("next", 0)),
        st.just(("next", 0)),
        st.just(("batch", 0)),
        st.tuples(st.just("cancel"), st.integers(0, 25)),
        st.just(("again", 0)),
    ),
    max_size=12,
)


def publish_last(journal: SmallJournal) -> None:
    journal.publish(3)  # a reader may begin with number 3
    journal.publish(1, "a.last")


class User:
    """Reads to the end, in whatever way the steps say."""

    def __init__(self, broker: SmallBroker, model: Model, subject: str, wanted: Any) -> None:
        self.broker, self.model, self.subject = broker, model, subject
        self.reader = reader_of(broker.port, subject, **wanted)
        self.wanted = wanted
        self.is_over = False

    def take(self, item: Item) -> None:
        self.model.take(item)
        if isinstance(item, Message) and item.subject == "a.last":
            self.is_over = True

    async def step(self, kind: str, turns: int) -> None:
        match kind:
            case "again":
                position = self.reader.position
                await self.reader.aclose()
                if self.model.number or self.model.changes:
                    self.reader = reader_of(self.broker.port, self.subject, start=position)
                else:
                    self.reader = reader_of(self.broker.port, self.subject, **self.wanted)
            case "batch":
                async for batch in self.reader.batches():
                    for item in batch:
                        self.take(item)
                    break
            case "cancel":
                waiting = asyncio.ensure_future(self.next())
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait({waiting})
                if not waiting.cancelled():
                    self.take(waiting.result())
            case _:
                self.take(await self.next())

    async def next(self) -> Item:
        item: Item = await anext(self.reader)
        return item


@settings(max_examples=examples(500))
@given(
    st.integers(0, 12),
    st.lists(plans, max_size=5),
    steps,
    st.sampled_from([">", "a.>"]),
    st.sampled_from([None, 1, 3]),
)
def test_given_any_faults_when_read_then_each_number_once_or_lost_and_changes_are_told(
    published: int,
    faults: list[Plan],
    ways: list[tuple[str, int]],
    subject: str,
    start: int | None,
) -> None:
    async def scenario() -> None:
        before, journal = asyncio.all_tasks(), SmallJournal()
        journal.publish(published)
        async with SmallBroker([copied(plan, subject) for plan in faults], journal) as broker:
            broker.on_last = publish_last
            model = Model(broker, subject, start)
            user = User(broker, model, subject, {"start": start})
            left = list(ways)
            while not user.is_over:
                await user.step(*(left.pop(0) if left else ("next", 0)))
            await user.reader.aclose()
            await broker.all_closed.wait()
        assert asyncio.all_tasks() == before

    run(asyncio.wait_for(scenario(), 10))


def copied(plan: Plan, subject: str) -> Plan:
    """A plan is used up, and hypothesis shows it: so each run has its own.

    A reader finds a message that comes twice by the numbers, which have no holes only for `>`.
    """
    made = Plan(**vars(plan))
    made.before, made.during = list(plan.before), list(plan.during)
    made.repeats = plan.repeats if subject == ">" else 0
    return made


# Single faults, which the model meets too rarely


async def all_of(reader: Reader[Any]) -> list[Any]:
    return [item async for item in reader]


def test_given_another_journal_then_an_end_that_was_asked_for_still_holds() -> None:
    async def scenario() -> None:
        journal = SmallJournal()
        journal.publish(6)
        async with SmallBroker([], journal) as broker:
            other = Position("f" * 16, 40)
            for until, last in (("now", 6), (4, 4)):
                items = await all_of(reader_of(broker.port, start=other, until=until))
                assert isinstance(items[0], JournalChanged)
                assert items[0].before[:2] == other[:2]
                assert items[0].now == Position(journal.id, 6)
                assert [item.number for item in items[1:]] == list(range(1, last + 1))

    run(scenario())


def test_given_a_journal_that_lost_its_end_when_nothing_has_taken_its_place_then_it_is_told() -> (
    None
):
    async def scenario() -> None:
        journal = SmallJournal()
        journal.publish(6)
        plans = [Plan(), Plan(before=[lambda journal: journal.lose_end(2, 0)], ends_idle=False)]
        async with SmallBroker(plans, journal) as broker:
            reader = reader_of(broker.port)
            assert [(await anext(reader)).number for _ in range(6)] == [1, 2, 3, 4, 5, 6]
            change = await anext(reader)
            assert isinstance(change, JournalChanged)
            assert (change.before.number, change.now.number) == (6, 4)
            assert reader.position == Position(journal.id, 0)
            assert (await anext(reader)).number == 1
            await reader.aclose()

    run(scenario())


def test_given_a_start_that_is_yet_to_come_when_the_broker_is_opened_anew_then_it_waits() -> None:
    async def scenario() -> None:
        journal = SmallJournal()
        journal.publish(2)
        plans = [
            Plan(),
            Plan(before=[lambda journal: journal.reopen()], lag=1),
            Plan(before=[lambda journal: journal.publish(5)]),
        ]
        async with SmallBroker(plans, journal) as broker:
            items = await all_of(reader_of(broker.port, start=6, until=7))
            assert [item.number for item in items] == [6, 7]

    run(scenario())


def test_given_another_journal_before_the_first_message_then_it_begins_with_that_ones_first() -> (
    None
):
    async def scenario() -> None:
        journal = SmallJournal()
        journal.publish(2)
        journal.retain(0)
        plans = [Plan(lag=1), Plan(before=[lambda journal: journal.replace(4)], ends_idle=False)]
        async with SmallBroker(plans, journal) as broker:
            reader = reader_of(broker.port)
            assert [(await anext(reader)).number for _ in range(4)] == [1, 2, 3, 4]
            await reader.aclose()

    run(scenario())


@pytest.mark.parametrize("is_abandoned", [False, True])
def test_given_a_reader_at_any_step_when_it_is_left_then_nothing_stays_open(
    is_abandoned: bool,
) -> None:
    async def scenario(steps: int) -> bool:
        journal = SmallJournal()
        journal.publish(3)
        before = asyncio.all_tasks()
        async with SmallBroker([Plan(ends_idle=False)], journal) as broker:
            reader = reader_of(broker.port)
            waiting = asyncio.ensure_future(one_of(reader))
            for _ in range(steps):
                await asyncio.sleep(0)
            is_done = waiting.done()
            waiting.cancel()
            await asyncio.wait({waiting})
            if is_abandoned:
                del reader, waiting  # whose error holds it
                gc.collect()
            else:
                await reader.aclose()
            if broker.connections:
                await broker.all_closed.wait()
        async with asyncio.timeout(5):
            while asyncio.all_tasks() != before:
                await asyncio.sleep(0)  # no event to await: the broker lets go, too
        return is_done

    async def one_of(reader: Reader[Any]) -> Item:
        found: Item = await anext(reader)
        return found

    async def all_steps() -> None:
        steps = 0
        while not await scenario(steps):
            steps += 1

    run(all_steps())
