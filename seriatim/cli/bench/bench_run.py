"""Runs a benchmark: asks the broker what it is, starts the workers, and gathers their reports."""

import json
import secrets
from dataclasses import dataclass, field

from seriatim.cli.bench.bench_connection import bench_connection
from seriatim.cli.bench.bench_plan import RUNS, BenchPlan
from seriatim.cli.bench.bench_process import Work, WorkerReport
from seriatim.cli.bench.bench_publishers import publish_plainly, publish_with_answers
from seriatim.cli.bench.bench_subscriber import receive
from seriatim.cli.bench.crew import Crew
from seriatim.cli.errors import CliError
from seriatim.cli.printable import printable
from seriatim.client.bulk_connection import BulkConnection
from seriatim.client.peer_json import read_object


@dataclass(slots=True)
class BenchResult:
    """The result of a benchmark: a report of each worker, as far as there is one."""

    plan: BenchPlan
    server: str  # its name and version
    has_numbers: bool
    publishers: list[WorkerReport] = field(default_factory=list)
    subscribers: list[WorkerReport] = field(default_factory=list)
    replayers: list[WorkerReport] = field(default_factory=list)
    numbers: tuple[int, int] | None = None  # that were read back, from the first to the last
    is_interrupted: bool = False

    @property
    def sent(self) -> int:
        """How many messages were published."""
        return sum(one.messages for one in self.publishers)

    def take_live(self, publishers: list[WorkerReport], subscribers: list[WorkerReport]) -> None:
        """Take what was published, and received meanwhile."""
        self.publishers, self.subscribers = publishers, subscribers
        for one in subscribers:
            one.count_missing(self.sent)

    def take_replay(self, numbers: tuple[int, int], replayers: list[WorkerReport]) -> None:
        """Take what was read back, of these numbers."""
        self.numbers, self.replayers = numbers, replayers
        if self.plan.publishes:
            for one in replayers:
                one.count_missing(self.sent)


def run_bench(plan: BenchPlan) -> BenchResult:
    """Run it. An interrupted one has the figures so far. Raises `CliError`."""
    result = _look(plan)
    first = _last_number(plan) + 1 if plan.replay else plan.first
    run = secrets.randbelow(RUNS - 1) + 1  # 0 is none
    try:
        if plan.publishes:
            _publish(plan, result, run)
        if first:
            _read_back(plan, result, run, first)
    except KeyboardInterrupt:
        result.is_interrupted = True
    return result


def _look(plan: BenchPlan) -> BenchResult:
    """Ask the broker what it is, and whether it can do what the plan wants."""
    with bench_connection(plan) as connection:
        info, most = connection.info, connection.max_payload
        ours = info.get("seriatim")
        asks = plan.ack and not ours and bool(info.get("jetstream"))
        is_taken = asks and _has_stream(plan, connection)
    name = f"Seriatim {ours}" if ours else f"nats-server {info.get('version', '')}".strip()
    name = printable(name)
    result = BenchResult(plan, name, bool(ours))
    shown = plan.access.shown
    if plan.publishes and plan.size > most:
        raise CliError(f"{shown}: --size {plan.size}: the broker accepts at most {most} bytes")
    if not ours and (plan.replay or not plan.publishes):
        raise CliError(f"{shown}: {name} keeps no messages that could be read back by number")
    if not ours and plan.ack and not is_taken:
        raise CliError(
            f"{shown}: {name} acknowledges only what a stream of JetStream takes, and none takes"
            f" {plan.subject_names()[0]}; create one, or leave out --ack"
        )
    return result


def _has_stream(plan: BenchPlan, connection: BulkConnection) -> bool:
    """Return whether a stream of JetStream takes the messages."""
    wish = json.dumps({"subject": plan.subject_names()[0]}).encode()
    answer = connection.request("$JS.API.STREAM.NAMES", wish)
    try:
        return bool(read_object(answer.payload).get("streams"))
    except ValueError:  # empty where JetStream does not answer
        return False


def _last_number(plan: BenchPlan) -> int:
    """Return the last number that the broker has given."""
    with bench_connection(plan) as connection:
        answer = connection.request("$SEQ.INFO").check("$SEQ.INFO")
    try:
        return int(read_object(answer.payload)["last"])
    except (ValueError, KeyError, TypeError):
        raise CliError(f"{plan.access.shown}: the answer to $SEQ.INFO is not a broker's") from None


def _publish(plan: BenchPlan, result: BenchResult, run: int) -> None:
    """Publish, with subscribers that listen unless everything is read back afterwards."""
    listeners = plan.subscribers if plan.listens else 0
    works: list[tuple[str, Work]] = []
    for index in range(listeners):
        works.append((f"subscriber {index + 1}", receive(plan, run, index, result.has_numbers)))
    for index in range(plan.publishers):
        if plan.ack:
            work = publish_with_answers(plan, run, index, result.has_numbers)
        else:
            work = publish_plainly(plan, run, index)
        works.append((f"publisher {index + 1}", work))
    with Crew(works, listeners, plan.count or 0) as crew:
        try:
            crew.work("publishing", plan.seconds)
        finally:
            result.take_live(crew.reports(crew.publishers), crew.reports(crew.subscribers))


def _read_back(plan: BenchPlan, result: BenchResult, run: int, first: int) -> None:
    """Read messages from the journal, from the first number on up to the newest one."""
    last = _last_number(plan)
    if first > last:
        raise CliError(f"{plan.access.shown}: nothing is there from number {first} on")
    numbers = (first, last)
    works: list[tuple[str, Work]] = [
        (f"subscriber {index + 1}", receive(plan, run, index, result.has_numbers, numbers))
        for index in range(plan.subscribers)
    ]
    with Crew(works, plan.subscribers, result.sent or last - first + 1) as crew:
        try:
            crew.work("reading back", None)
        finally:
            result.take_replay(numbers, crew.reports(crew.subscribers))
