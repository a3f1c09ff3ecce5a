"""A consumer's configuration: what a request may say, what it comes to, and what INFO shows.

    request = read_create(text)               strict JSON, or 10025
    request.check_place(...)                  does it fit the subject that it was published to?
    config = request.resolve(old, rules)      what it comes to, or what is wrong with it:
      set_defaults(rules, pedantic)             what was left out
      check(rules)                              nats-server's checks, in its order, with its errors
      check_update(config, bound)               what an update may change
    config.shown(version)                     as answers show it

Names are those of the API. Times and durations are nanoseconds, but for the two `GoTime`s. What
Seriatim does not support is refused as nats-server refuses what it does not know; `mem_storage`
is shown, and has no effect.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from broker.streams.api_errors import consumer_error
from broker.streams.go_duration import MILLISECOND, SECOND, duration_text
from broker.streams.strict_json import (
    BOOL,
    DURATION,
    DURATIONS,
    INT,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    UINT,
    GoTime,
    JsonKind,
    JsonKinds,
    WrongJson,
    one_of,
    quoted_json,
    read_strictly,
)
from sublist.pattern_set import PatternSet, is_within
from sublist.subject import has_wildcard, is_pattern

ACK_WAIT: Final = 30 * SECOND  # of acks that nobody set it for
MAX_ACK_PENDING: Final = 1000
MAX_WAITING: Final = 512
INACTIVE_THRESHOLD: Final = 5 * SECOND  # of an ephemeral consumer
HEARTBEAT_MIN: Final = 100 * MILLISECOND
NAME_MAX: Final = 255
DESCRIPTION_MAX: Final = 4 << 10
METADATA_MAX: Final = 16 << 10
FILTERS_MAX: Final = 256
FILTERS_TEXT_MAX: Final = 64 << 10  # bytes of all of them: each is compared with the others
API_LEVEL: Final = 1  # the lowest at which the CLI pauses consumers
LEVEL_NEEDED: Final = "_nats.req.level"  # of a config, kept in its metadata
LEVEL, VERSION = "_nats.level", "_nats.ver"  # of the server, shown in it
_BAD_IN_NAMES: Final = re.compile(r"[ \t\r\n\f.*>\\/]")
_POLICY: Final = "can not unmarshal {}"


def _policy(*words: str) -> JsonKind:
    """A policy's words; anything else is an error that quotes it."""
    plain = one_of(words, "")

    def read(value: Any, path: str) -> str:
        try:
            return str(plain.read(value, path))
        except WrongJson:
            raise WrongJson(_POLICY.format(quoted_json(value))) from None

    return JsonKind("", read)


def _absent(kind: JsonKind) -> JsonKind:
    """A field of what is not supported: empty, or an unknown field."""

    def read(value: Any, path: str) -> None:
        if kind.read(value, path) not in (0, False, "", "none", []):
            raise WrongJson(f'json: unknown field "{path.rpartition(".")[2]}"')

    return JsonKind(kind.go, read)


KINDS: Final[dict[str, JsonKind]] = {
    "durable_name": STRING,
    "name": STRING,
    "description": STRING,
    "deliver_policy": _policy(
        *("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"),
        "undefined",
    ),
    "opt_start_seq": UINT,
    "opt_start_time": TIME,
    "ack_policy": _policy("none", "all", "explicit"),
    "ack_wait": DURATION,
    "max_deliver": INT,
    "backoff": DURATIONS,
    "filter_subject": STRING,
    "filter_subjects": STRINGS,
    "replay_policy": _policy("instant", "original"),
    "rate_limit_bps": UINT,
    "sample_freq": STRING,
    "max_waiting": INT,
    "max_ack_pending": INT,
    "flow_control": BOOL,
    "headers_only": BOOL,
    "max_batch": INT,
    "max_expires": DURATION,
    "max_bytes": INT,
    "deliver_subject": STRING,
    "deliver_group": STRING,
    "idle_heartbeat": DURATION,
    "inactive_threshold": DURATION,
    "num_replicas": INT,
    "mem_storage": BOOL,
    "direct": BOOL,
    "metadata": STRING_MAP,
    "pause_until": TIME,
}
UNSUPPORTED: Final[dict[str, JsonKind]] = {
    "sourcing": _absent(BOOL),
    "priority_groups": _absent(STRINGS),
    "priority_policy": _absent(
        one_of(("none", "overflow", "pinned_client", "prioritized"), "unknown priority policy: {}")
    ),
    "priority_timeout": _absent(DURATION),
}
REQUEST: Final[JsonKinds] = {
    "stream_name": STRING,
    "config": {**KINDS, **UNSUPPORTED},
    "action": one_of(("", "create", "update"), "unknown consumer action: {}"),
    "pedantic": BOOL,
}
# Shown even if they are empty; the others only if they are not.
ALWAYS: Final = frozenset({"deliver_policy", "ack_policy", "replay_policy", "num_replicas"})


@dataclass(frozen=True, slots=True)
class StreamRules:
    """Facts for a consumer's checks: of its stream, and of this broker."""

    subjects: Sequence[str] = ()
    retention: str = "limits"  # or interest, workqueue
    max_ack_pending: int = 0  # consumer_limits of the stream; 0 is none
    inactive_threshold: int = 0
    ack_pending_limit: int = 65_536  # of the broker
    is_whole: bool = False  # it is the stream of everything


@dataclass(slots=True)
class ConsumerConfig:
    """A consumer's configuration; a new one has Go's zero values, until `set_defaults`."""

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: str = "all"
    opt_start_seq: int = 0
    opt_start_time: GoTime | None = None
    ack_policy: str = "none"
    ack_wait: int = 0
    max_deliver: int = 0
    backoff: list[int] = field(default_factory=list)
    filter_subject: str = ""
    filter_subjects: list[str] = field(default_factory=list)
    replay_policy: str = "instant"
    rate_limit_bps: int = 0
    sample_freq: str = ""
    max_waiting: int = 0
    max_ack_pending: int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int = 0
    max_expires: int = 0
    max_bytes: int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: int = 0
    inactive_threshold: int = 0
    num_replicas: int = 0
    mem_storage: bool = False
    direct: bool = False
    metadata: dict[str, str] = field(default_factory=dict)
    pause_until: GoTime | None = None

    @property
    def is_durable(self) -> bool:
        """True if it outlives a restart, and has no inactive threshold unless it sets one."""
        return bool(self.durable_name)

    @property
    def is_push(self) -> bool:
        """True if messages go to a subject of the consumer, False if clients ask for them."""
        return bool(self.deliver_subject)

    @property
    def filters(self) -> list[str]:
        """The patterns whose messages it wants; none: all of the stream."""
        return [self.filter_subject] if self.filter_subject else self.filter_subjects

    def fields(self) -> dict[str, Any]:
        """Return it as JSON, in Go's order, as it is kept."""
        shown: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, GoTime):
                shown[one.name] = value.text()
            elif value or one.name in ALWAYS:
                shown[one.name] = value
        if self.metadata:
            shown["metadata"] = dict(sorted(self.metadata.items()))
        return shown

    def shown(self, version: str) -> dict[str, Any]:
        """Return it as JSON, as answers show it: with nats-server's version that we claim."""
        metadata = {**self.metadata, LEVEL: str(API_LEVEL), VERSION: version}
        config = self.fields()
        pause_until = config.pop("pause_until", None)
        config["metadata"] = dict(sorted(metadata.items()))
        if pause_until is not None:
            config["pause_until"] = pause_until
        return config

    # What was left out

    def set_defaults(self, rules: StreamRules, pedantic: bool = False) -> None:
        """Fill in what was left out. Raises 10157 for what a pedantic request must say itself."""

        def says(what: str, is_wrong: bool = True) -> None:
            if pedantic and is_wrong:
                raise consumer_error(10157, what)

        self._raise_negative(says)
        if not self.is_push and self.max_waiting == 0:
            self.max_waiting = MAX_WAITING
        if self.ack_wait == 0 and self.ack_policy != "none":
            self.ack_wait = ACK_WAIT
        if self.backoff:
            says("first backoff value has to equal batch AckWait", self.ack_wait != self.backoff[0])
            self.ack_wait = self.backoff[0]
        for name in ("max_ack_pending", "inactive_threshold"):
            limit = getattr(rules, name)
            if getattr(self, name) == 0 and limit > 0:
                says(f"{name} must be set if it's configured in stream limits")
                setattr(self, name, limit)
        if self.max_ack_pending == 0 and self.ack_policy != "none":
            self.max_ack_pending = min(MAX_ACK_PENDING, rules.ack_pending_limit)
        if self.deliver_policy == "undefined":
            self.deliver_policy = "all"

    def _raise_negative(self, says: Callable[..., None]) -> None:
        """Set what is below its lowest value to that."""
        if self.max_deliver == 0:
            self.max_deliver = -1
        for name, least in (
            *(("max_deliver", -1), ("max_waiting", 0), ("max_ack_pending", -1), ("max_batch", 0)),
            *(("max_expires", 0), ("max_bytes", 0), ("idle_heartbeat", 0)),
            ("inactive_threshold", 0),
        ):
            if getattr(self, name) < least:
                says(f"{name} must " + ("not be negative" if least == 0 else "be set to -1"))
                setattr(self, name, least)

    def settle(self) -> None:
        """Complete a checked config as a new consumer's: its threshold, and the level it needs."""
        if not self.is_durable and self.inactive_threshold == 0:
            self.inactive_threshold = INACTIVE_THRESHOLD
        for name in (LEVEL, VERSION):
            self.metadata.pop(name, None)
        is_paused = self.pause_until is not None and not self.pause_until.is_zero
        self.metadata[LEVEL_NEEDED] = "1" if is_paused else "0"

    # nats-server's checks, in its order

    def check(self, rules: StreamRules) -> None:
        """Refuse what does not go together. Raises `ApiError`."""
        self._check_names()
        self._check_policies(rules)
        if self.is_push:
            self._check_push(rules)
        else:
            self._check_pull(rules)
        self._check_limits(rules)
        self._check_filters()
        self._check_start()
        self._check_rest()

    def _check_names(self) -> None:
        bad = "can not contain '.', '*', '>', '\\', '/'"
        if _BAD_IN_NAMES.search(self.name):
            raise consumer_error(10052, f"consumer name {bad}")
        if _BAD_IN_NAMES.search(self.durable_name):
            raise consumer_error(10052, f"consumer durable name {bad}")

    def _check_policies(self, rules: StreamRules) -> None:
        if self.num_replicas > 1:
            raise consumer_error(10126)
        if self.num_replicas < 0:
            raise consumer_error(10133)
        if any(wait < 0 for wait in self.backoff):
            raise consumer_error(10184)
        if self.ack_wait < 0:
            raise consumer_error(10183)
        if self.backoff and -1 != self.max_deliver < len(self.backoff):
            raise consumer_error(10116)
        if len(self.description.encode()) > DESCRIPTION_MAX:
            raise consumer_error(10107, DESCRIPTION_MAX)

    def _check_push(self, rules: StreamRules) -> None:
        subject = self.deliver_subject.encode()
        if has_wildcard(subject):
            raise consumer_error(10079)
        if not _is_subject(self.deliver_subject):
            raise consumer_error(10112)
        # What is delivered has no number: it cannot come back to the stream of everything.
        taken = PatternSet(one.encode() for one in rules.subjects if not rules.is_whole)
        if taken.takes(subject) or subject.startswith(b"$"):
            raise consumer_error(10081)
        if self.max_waiting:
            raise consumer_error(10080)
        if self.max_ack_pending > 0 and self.ack_policy == "none":
            raise consumer_error(10082)
        if 0 < self.idle_heartbeat < HEARTBEAT_MIN:
            raise consumer_error(10083)

    def _check_pull(self, rules: StreamRules) -> None:
        if self.ack_policy == "none" and rules.retention == "workqueue":
            raise consumer_error(10084)
        if self.rate_limit_bps:
            raise consumer_error(10086)
        if self.idle_heartbeat:
            raise consumer_error(10088)
        if self.flow_control:
            raise consumer_error(10089)
        if 0 < self.max_expires < MILLISECOND:
            raise consumer_error(10115)

    def _check_limits(self, rules: StreamRules) -> None:
        for limit in (rules.ack_pending_limit, rules.max_ack_pending):
            if 0 < limit < self.max_ack_pending:
                raise consumer_error(10121, limit)
        if 0 < rules.inactive_threshold < self.inactive_threshold:
            raise consumer_error(10153, duration_text(rules.inactive_threshold))
        if self.direct and not self.is_push:
            raise consumer_error(10090)
        if self.direct and self.is_durable:
            raise consumer_error(10091)

    def _check_filters(self) -> None:
        if self.filter_subject and self.filter_subjects:
            raise consumer_error(10136)
        if not all(self.filter_subjects):
            raise consumer_error(10139)
        filters = self.filters
        if len(filters) > FILTERS_MAX:
            raise consumer_error(
                10094,
                f"consumer has {len(filters)} filter subjects, and {FILTERS_MAX} are the most",
            )
        size = sum(map(len, filters))
        if size > FILTERS_TEXT_MAX:
            raise consumer_error(
                10094, f"consumer has {size} bytes of filters, and {FILTERS_TEXT_MAX} are the most"
            )
        if not all(map(_is_subject, filters)):
            raise consumer_error(10052, "invalid subject")
        tokens = [one.encode().split(b".") for one in filters]
        wide = [one for one in tokens if b"*" in one or b">" in one]
        if len(set(filters)) < len(filters) or any(
            is_within(one, other) for one in tokens for other in wide if other is not one
        ):
            raise consumer_error(10138)

    def _check_start(self) -> None:
        policy = self.deliver_policy.replace("_", " ")
        wanted = {"by_start_sequence": "start sequence", "by_start_time": "start time"}
        says = f"consumer delivery policy is deliver {policy}, but optional"
        if self.deliver_policy == "by_start_sequence":
            if not self.opt_start_seq:
                raise consumer_error(10094, f"{says} start sequence is not set")
            if self.opt_start_time is not None:
                raise consumer_error(10094, f"{says} start time is also set")
        elif self.deliver_policy == "by_start_time":
            if self.opt_start_time is None:
                raise consumer_error(10094, f"{says} start time is not set")
            if self.opt_start_seq:
                raise consumer_error(10094, f"{says} start start sequence is also set")
        else:
            assert self.deliver_policy not in wanted
            if self.opt_start_seq:
                raise consumer_error(10094, f"{says} start sequence is also set")
            if self.opt_start_time is not None:
                raise consumer_error(10094, f"{says} start time is also set")
            if self.deliver_policy == "last_per_subject" and not self.filters:
                raise consumer_error(10094, f"{says} filter subject is not set")

    def _check_rest(self) -> None:
        if self.sample_freq:
            _check_sampling(self.sample_freq)
        if self.flow_control and not self.idle_heartbeat:
            raise consumer_error(10108)
        if self.durable_name and self.name and self.name != self.durable_name:
            raise consumer_error(10132)
        size = sum(len(key.encode()) + len(value.encode()) for key, value in self.metadata.items())
        if size > METADATA_MAX:
            raise consumer_error(10135, f"{METADATA_MAX >> 10}KB")
        if max(len(self.durable_name.encode()), len(self.name.encode())) > NAME_MAX:
            raise consumer_error(10102, NAME_MAX)

    def check_work_queue(self, others: Sequence["ConsumerConfig"]) -> None:
        """Refuse what a work queue does not allow beside its other consumers: `others`."""
        if self.ack_policy != "explicit":
            raise consumer_error(10098)
        if self.deliver_policy != "all":
            raise consumer_error(10101)
        if others and not self.filters:
            raise consumer_error(10099)

    def check_part(self, others: Sequence["ConsumerConfig"]) -> None:
        """Refuse filters that share a message with those of a work queue's other consumers."""
        for other in others:
            taken = PatternSet(one.encode() for one in other.filters or [">"])
            if any(taken.meets(one.encode()) for one in self.filters):
                raise consumer_error(10100)

    # Updates

    def is_same(self, other: "ConsumerConfig") -> bool:
        """True if a request to create `other` finds what it asks for: this one."""
        mine, theirs = self.fields(), other.fields()
        for config in (mine, theirs):
            metadata = config.pop("metadata", {})
            config["own"] = {
                key: value
                for key, value in metadata.items()
                if key not in (LEVEL, VERSION, LEVEL_NEEDED)
            }
        return mine == theirs

    def check_update(self, new: "ConsumerConfig", bound: bool) -> None:
        """Refuse what an update may not change; `bound`: its deliver subject is listened to."""
        for name, what in (
            ("deliver_policy", "deliver policy"),
            ("mem_storage", "storage type"),
            ("direct", "direct"),
            ("opt_start_seq", "start sequence"),
            ("opt_start_time", "start time"),
            ("ack_policy", "ack policy"),
            ("replay_policy", "replay policy"),
            ("idle_heartbeat", "heart beats"),
            ("flow_control", "flow control"),
        ):
            old, wanted = getattr(self, name), getattr(new, name)
            if isinstance(old, GoTime) and isinstance(wanted, GoTime):
                old, wanted = old.ns, wanted.ns
            if old != wanted:
                raise consumer_error(10012, f"{what} can not be updated")
        if self.deliver_subject != new.deliver_subject:
            if not self.deliver_subject:
                raise consumer_error(10012, "can not update pull consumer to push based")
            if not new.deliver_subject:
                raise consumer_error(10012, "can not update push consumer to pull based")
            if bound:
                raise consumer_error(10013)
        if self.max_waiting != new.max_waiting:
            raise consumer_error(10012, "max waiting can not be updated")


def _is_subject(text: str) -> bool:
    return is_pattern(text.encode()) and not any(letter in " \t\r\n\f\0" for letter in text)


def _check_sampling(text: str) -> None:
    """Refuse what is no percentage. Go's words say what its reader of numbers found."""
    digits = text.removesuffix("%")
    if not re.fullmatch(r"[-+]?[0-9]+", digits, re.ASCII):
        raise consumer_error(10095, f'strconv.Atoi: parsing "{digits}": invalid syntax')
    if not -(1 << 63) <= int(digits[:25]) < 1 << 63:
        raise consumer_error(10095, f'strconv.Atoi: parsing "{digits}": value out of range')
    if int(digits) < 0:
        raise consumer_error(10095, "<nil>")


def read_config(kept: Mapping[str, Any]) -> ConsumerConfig:
    """Return a config from what `fields` had returned."""
    values = {name: value for name, value in kept.items() if name in KINDS}
    for name in ("opt_start_time", "pause_until"):
        if name in values:
            values[name] = TIME.read(values[name], name)
    return ConsumerConfig(**values)


@dataclass(slots=True)
class CreateRequest:
    """A request to create or update a consumer: what its JSON said."""

    stream: str
    config: ConsumerConfig
    action: str = ""  # or create, update; empty is either of them
    pedantic: bool = False

    def check_place(self, stream: str, name: str, filters: str, legacy: str = "") -> None:
        """Refuse a request that does not fit its subject, and take the name from there.

        `legacy` is `durable` for `CONSUMER.DURABLE.CREATE`, and `ephemeral` for a subject without
        a name; `filters` is what follows the name in a subject.
        """
        config = self.config
        if stream != self.stream:
            raise consumer_error(10056)
        if "/" in name or "\\" in name:
            raise consumer_error(10127)
        if legacy == "durable" and not config.durable_name:
            raise consumer_error(10018)
        if legacy == "ephemeral" and config.durable_name:
            raise consumer_error(10020)
        if legacy != "ephemeral":
            if config.durable_name and name != config.durable_name:
                raise consumer_error(10017)
            config.name = name
        if filters and config.filter_subjects:
            raise consumer_error(10137)
        if filters and config.filter_subject != filters:
            raise consumer_error(10131)
        if config.num_replicas > 1:
            raise consumer_error(10074)

    def resolve(
        self,
        old: ConsumerConfig | None,
        rules: StreamRules,
        others: Sequence[ConsumerConfig] = (),
        bound: bool = False,
    ) -> ConsumerConfig:
        """Return the config that the request comes to. Raises `ApiError` for what is refused.

        `old` is that of the consumer of this name, `others` those of the stream's other consumers;
        `bound`: somebody listens to the old deliver subject. A pause is only changed by PAUSE.
        """
        config = self.config
        if old is not None:
            config.pause_until = old.pause_until
        config.set_defaults(rules, self.pedantic)
        config.check(rules)
        if old is None and self.action == "update":
            raise consumer_error(10149)
        if old is not None and self.action == "create" and not old.is_same(config):
            raise consumer_error(10148)
        if rules.retention == "workqueue":
            if old is None and not config.direct:
                config.check_work_queue(others)
            config.check_part(others)
        if old is not None:
            old.check_update(config, bound)
            until = config.pause_until
            config.pause_until = None if until is None else GoTime(until.ns)  # in UTC from now on
        config.settle()
        return config


def read_create(text: bytes) -> CreateRequest:
    """Read a request to create or update a consumer. Raises 10025."""
    try:
        found = read_strictly(text, REQUEST, "CreateConsumerRequest")
    except WrongJson as wrong:
        raise consumer_error(10025, wrong) from None
    said = {name: value for name, value in found.get("config", {}).items() if name in KINDS}
    config = ConsumerConfig(**said)
    return CreateRequest(
        found.get("stream_name", ""), config, found.get("action", ""), found.get("pedantic", False)
    )
