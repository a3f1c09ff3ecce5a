"""The plan of a benchmark: the options of `seriatim bench`, checked, and the shares of the work."""

import importlib.util
from dataclasses import dataclass, field, replace
from typing import Final

from seriatim.bench.message_block import STAMP
from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError, UsageError
from seriatim.settings.checked import WrongValue, quoted
from seriatim.settings.subjects import check_subject

COUNT: Final = 1_000_000  # messages, if neither their number nor a time is given
SECONDS: Final = 10.0  # the same with a rate
BLOCK_BYTES_MAX: Final = 1 << 28  # of a publisher: a message to each subject is kept ready
SEQUENCES: Final = 1 << 36  # of a publisher: what its stamps have room for
RUNS: Final = 1 << 15  # that stamps tell apart
NO_HISTOGRAM: Final = (
    "latencies need hdrhistogram, which is not installed here: pip install 'hdrhistogram>=0.10'"
)


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """A benchmark. `first`: where a replay of what is there begins; 0: messages are published."""

    access: BrokerAccess = field(default_factory=BrokerAccess)
    subject: str = "bench"
    publishers: int = 1
    subscribers: int = 1
    size: int = 128
    subjects: int = 1
    count: int | None = None
    seconds: float | None = None
    rate: float | None = None  # messages a second, of all publishers together
    ack: bool = False
    window: int = 1000  # messages in flight of a publisher, with `ack`
    replay: bool = False
    first: int = 0
    timeout: float = 15.0

    @property
    def listens(self) -> bool:
        """True if subscribers receive while messages are published."""
        return self.subscribers > 0 and not self.replay

    @property
    def publishes(self) -> bool:
        """True unless it only reads what is there."""
        return self.first == 0

    @property
    def has_latency(self) -> bool:
        """True if messages have a time at which they are to be sent, or an answer that is timed."""
        return self.publishes and (self.rate is not None or self.ack)

    @property
    def pattern(self) -> str:
        """The subject, or the pattern, that subscribers subscribe to."""
        return f"{self.subject}.*" if self.subjects > 1 else self.subject

    def subject_names(self) -> list[str]:
        """Return the subjects that take turns."""
        if self.subjects == 1:
            return [self.subject]
        return [f"{self.subject}.{index}" for index in range(self.subjects)]

    def share(self, publisher: int) -> int:
        """Return how many messages this publisher sends at most."""
        if self.count is None:
            return SEQUENCES
        whole, rest = divmod(self.count, self.publishers)
        return whole + (publisher < rest)


def checked(plan: BenchPlan, given: set[str]) -> BenchPlan:
    """Return the plan, with what was not `given` filled in. Raises `CliError`."""
    _check_combination(plan, given)
    try:
        check_subject(plan.subject, wildcards=not plan.publishes)
    except WrongValue as wrong:
        raise UsageError(str(wrong)) from None
    if not plan.publishes:
        return plan
    if plan.size < STAMP:
        raise UsageError(
            f"--size {plan.size} is too small: at least {STAMP} bytes, for each message has its"
            " sequence and its time"
        )
    if plan.subjects * (plan.size + len(plan.subject) + 40) > BLOCK_BYTES_MAX:
        raise UsageError(
            f"--subjects {plan.subjects} with --size {plan.size}: together more than"
            f" {BLOCK_BYTES_MAX >> 20} MiB, which each publisher keeps ready; give fewer or smaller"
        )
    if plan.has_latency and importlib.util.find_spec("hdrh") is None:
        raise CliError(NO_HISTOGRAM)
    if plan.count is None and plan.seconds is None:
        if plan.rate is None:
            return replace(plan, count=COUNT)
        return replace(plan, seconds=SECONDS)
    return plan


def _check_combination(plan: BenchPlan, given: set[str]) -> None:
    """Refuse options that exclude each other, or need another one."""
    if not plan.publishes:
        excluded = given & {
            *("--pubs", "--size", "--subjects", "--count", "--duration", "--rate", "--ack"),
            "--window",
        }
        if excluded:
            flag = min(excluded)
            raise UsageError(f"--from reads what is there, and publishes nothing; leave out {flag}")
    elif plan.publishers == 0:
        raise UsageError("--pubs 0 leaves nothing to measure; --from N reads what is there")
    if plan.replay and plan.subscribers == 0:
        raise UsageError("a replay needs a subscriber; leave out --subs 0")
    if plan.count is not None and plan.seconds is not None:
        raise UsageError("give one of --count and --duration, not both")
    if plan.seconds is not None and plan.seconds <= 0:
        raise UsageError("--duration 0 leaves no time to publish; give it, say, 10s")
    if plan.count is not None and plan.count < plan.publishers:
        raise UsageError(f"--count {plan.count} is fewer than one message for each publisher")
    if "--window" in given and not plan.ack:
        raise UsageError("--window bounds the messages that wait for an answer; it needs --ack")
    if "--plot" in given and not plan.has_latency:
        raise UsageError("--plot shows latencies; it needs --rate or --ack")


def shown_subject(plan: BenchPlan) -> str:
    """Return the subject as the report names it."""
    return quoted(plan.pattern) if plan.subjects == 1 else f"{plan.subjects:,} below {plan.subject}"
