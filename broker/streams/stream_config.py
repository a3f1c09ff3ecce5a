"""A stream's configuration: its fields, defaults and checks, and what an update may change.

Fields, defaults and errors are nats-server's (`StreamConfig`, `checkStreamCfg` in its stream.go).
What streams do not have here is refused with the field's name; a field that only says that it is
not used (false, 0, "", `limits`, `old`, -1) is always accepted.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from broker.streams.api_errors import (
    ApiError,
    invalid_config,
    invalid_json,
    replicas_not_supported,
    stream_mismatch,
)
from broker.streams.strict_json import (
    BOOL,
    DURATION,
    INT,
    INT32,
    INT64,
    STRING,
    STRING_MAP,
    STRINGS,
    UINT,
    JsonKind,
    JsonKinds,
    WrongJson,
    one_of,
    read_strictly,
)
from sublist.pattern_set import do_meet
from sublist.subject import covers, is_pattern

NAME_MAX: Final = 255
DESCRIPTION_MAX: Final = 4096
METADATA_MAX: Final = 128 << 10  # bytes of keys and values
REPLICAS_MAX: Final = 5
SUBJECTS_MAX: Final = 1024
SUBJECTS_TEXT_MAX: Final = 64 << 10
MIN_WINDOW_NS: Final = 100_000_000
DEFAULT_WINDOW_NS: Final = 120_000_000_000
API_LEVEL: Final = "1"
EVERYTHING: Final = "SEQ"  # the name of the stream of everything
NOT_IN_NAMES: Final = frozenset(" \t\r\n\f.*>/\\")
# Requests to the broker, and what it says itself: they have no numbers.
OWN: Final = {"$JS.>": "jetstream api", "$SEQ.>": "the sequencer's", "$SYS.>": "system api"}
# Limits: they come with a later version, and must not be ignored meanwhile.
LIMITS: Final = ("max_msgs", "max_bytes", "max_age", "max_msgs_per_subject", "max_msg_size")
USUAL: Final = {"retention": "limits", "discard": "old", "persist_mode": "default"}
# Fields of JetStream that no stream has here, refused unless they say "no": as a configuration
# that cannot be, or as fields that are not known.
MISSING: Final = (
    *("placement", "mirror", "sources", "subject_transform", "republish", "sealed"),
    *("allow_rollup_hdrs", "discard_new_per_subject"),
)
UNKNOWN: Final = (
    *("allow_msg_ttl", "subject_delete_marker_ttl", "allow_msg_counter", "allow_msg_schedules"),
    *("allow_atomic", "allow_batched"),
)


def _choice(*words: str) -> JsonKind:
    """Return the kind of a field with one of these words, and Go's complaint about another."""
    return one_of(words, "can not unmarshal {}")


def _anything(value: Any, path: str) -> Any:
    """Read a value of a field that only may be there if it says nothing."""
    return value


ANYTHING: Final = JsonKind("any", _anything)
KINDS: Final[JsonKinds] = {
    "name": STRING,
    "description": STRING,
    "subjects": STRINGS,
    "retention": _choice("limits", "interest", "workqueue"),
    "max_consumers": INT,
    "max_msgs": INT64,
    "max_bytes": INT64,
    "max_age": DURATION,
    "max_msgs_per_subject": INT64,
    "max_msg_size": INT32,
    "discard": _choice("old", "new"),
    "storage": _choice("file", "memory"),
    "num_replicas": INT,
    "no_ack": BOOL,
    "duplicate_window": DURATION,
    "compression": _choice("none", "s2"),
    "first_seq": UINT,
    "allow_direct": BOOL,
    "mirror_direct": BOOL,
    "discard_new_per_subject": BOOL,
    "sealed": BOOL,
    "deny_delete": BOOL,
    "deny_purge": BOOL,
    "allow_rollup_hdrs": BOOL,
    "consumer_limits": {"inactive_threshold": DURATION, "max_ack_pending": INT},
    "allow_msg_ttl": BOOL,
    "subject_delete_marker_ttl": DURATION,
    "allow_msg_counter": BOOL,
    "allow_msg_schedules": BOOL,
    "allow_atomic": BOOL,
    "allow_batched": BOOL,
    "persist_mode": _choice("default", "async"),
    "metadata": STRING_MAP,
    "pedantic": BOOL,
    "template_owner": STRING,
    **dict.fromkeys(("placement", "mirror", "sources", "subject_transform", "republish"), ANYTHING),
}


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A checked configuration, with the defaults filled in. Times are in ns."""

    name: str
    subjects: tuple[str, ...]
    description: str = ""
    storage: str = "file"
    compression: str = "none"
    max_consumers: int = -1
    no_ack: bool = False
    duplicate_window: int = DEFAULT_WINDOW_NS
    first_seq: int = 0
    allow_direct: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    consumer_inactive: int = 0
    consumer_ack_pending: int = 0
    metadata: dict[str, str] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """Return the configuration as answers show it: Go's order, and what Go leaves out."""
        limits: dict[str, int] = {}
        if self.consumer_inactive:
            limits["inactive_threshold"] = self.consumer_inactive
        if self.consumer_ack_pending:
            limits["max_ack_pending"] = self.consumer_ack_pending
        shown: dict[str, Any] = {"name": self.name}
        if self.description:
            shown["description"] = self.description
        shown |= {
            "subjects": list(self.subjects),
            "retention": "limits",
            "max_consumers": self.max_consumers,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msgs_per_subject": -1,
            "max_msg_size": -1,
            "discard": "old",
            "storage": self.storage,
            "num_replicas": 1,
        }
        if self.no_ack:
            shown["no_ack"] = True
        if self.duplicate_window:
            shown["duplicate_window"] = self.duplicate_window
        shown["compression"] = self.compression
        if self.first_seq:
            shown["first_seq"] = self.first_seq
        shown |= {
            "allow_direct": self.allow_direct,
            "mirror_direct": False,
            "sealed": False,
            "deny_delete": self.deny_delete,
            "deny_purge": self.deny_purge,
            "allow_rollup_hdrs": False,
            "consumer_limits": limits,
            "allow_msg_ttl": False,
        }
        if self.metadata:
            shown["metadata"] = dict(sorted(self.metadata.items()))
        return shown

    def with_versions(self, version: str) -> "StreamConfig":
        """Return the same with the metadata that nats-server adds."""
        added = {"_nats.level": API_LEVEL, "_nats.req.level": "0", "_nats.ver": version}
        return replace(self, metadata=self.metadata | added)


def read_config(text: bytes, name: str, dedupe_window: int) -> StreamConfig:
    """Read and check the configuration in a request. Raises `ApiError`.

    `name` is the one in the request's subject; `dedupe_window` is the broker's, in ns.
    """
    try:
        given = read_strictly(text, KINDS, "StreamConfigRequest")
    except WrongJson as error:
        raise invalid_json(str(error)) from None
    if name != given.get("name", ""):
        raise stream_mismatch()
    limits = given.get("consumer_limits", {})
    config = StreamConfig(
        name=name,
        description=given.get("description", ""),
        subjects=tuple(given.get("subjects", ())) or (name,),
        storage=given.get("storage", "file"),
        compression=given.get("compression", "none"),
        max_consumers=_unlimited(given.get("max_consumers", 0)),
        no_ack=given.get("no_ack", False),
        duplicate_window=given.get("duplicate_window", 0),
        first_seq=given.get("first_seq", 0),
        allow_direct=given.get("allow_direct", False),
        deny_delete=given.get("deny_delete", False),
        deny_purge=given.get("deny_purge", False),
        consumer_inactive=limits.get("inactive_threshold", 0),
        consumer_ack_pending=limits.get("max_ack_pending", 0),
        metadata=_own_metadata(given.get("metadata", {})),
    )
    config = _checked(config, dedupe_window)
    _refuse_missing(given)
    return config


def _unlimited(value: int) -> int:
    """Return a limit as nats-server shows it: -1 for none."""
    return value if value > 0 else -1


def _own_metadata(given: dict[str, str]) -> dict[str, str]:
    """Return the metadata without what servers add."""
    return {name: value for name, value in given.items() if not name.startswith("_nats.")}


def _refuse_missing(given: dict[str, Any]) -> None:
    """Refuse what streams do not have here."""
    replicas = given.get("num_replicas", 0)
    if replicas > REPLICAS_MAX:
        raise invalid_config(f"maximum replicas is {REPLICAS_MAX}")
    if replicas < 0:
        raise ApiError(400, 10133, "replicas count cannot be negative")
    if replicas > 1:
        raise replicas_not_supported()
    for name in LIMITS:
        if given.get(name, 0) > 0:
            raise invalid_config(f"{name} is not supported")
    for name, usual in USUAL.items():
        if given.get(name, usual) != usual:
            raise invalid_config(f"{name} {given[name]} is not supported")
    for name in MISSING:
        if given.get(name):
            raise invalid_config(f"{name} is not supported")
    for name in UNKNOWN:
        if given.get(name):
            raise invalid_json(f'json: unknown field "{name}"')


def _checked(config: StreamConfig, dedupe_window: int) -> StreamConfig:
    """Return the configuration with its defaults. Raises `ApiError`."""
    if not is_name(config.name):
        raise invalid_config("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name) > NAME_MAX:
        raise invalid_config(f"stream name is too long, maximum allowed is {NAME_MAX}")
    if config.name == EVERYTHING:
        raise invalid_config(f"{EVERYTHING} is the stream of everything, which is always there")
    if len(config.description) > DESCRIPTION_MAX:
        raise invalid_config(
            f"stream description is too long, maximum allowed is {DESCRIPTION_MAX}"
        )
    if sum(len(name) + len(value) for name, value in config.metadata.items()) > METADATA_MAX:
        raise invalid_config(f"stream metadata exceeds maximum size of {METADATA_MAX} bytes")
    window = config.duplicate_window or min(DEFAULT_WINDOW_NS, dedupe_window)
    if window < 0:
        raise invalid_config("duplicates window can not be negative")
    if window > dedupe_window:
        raise invalid_config(
            "duplicates window can not be larger then server limit of"
            f" {dedupe_window / 1e9:g}s (journal.dedupe_window)"
        )
    if 0 < window < MIN_WINDOW_NS:
        raise invalid_config("duplicates window needs to be >= 100ms")
    _check_subjects(config)
    return replace(config, duplicate_window=window)


def _check_subjects(config: StreamConfig) -> None:
    subjects = config.subjects
    if len(subjects) > SUBJECTS_MAX or sum(map(len, subjects)) > SUBJECTS_TEXT_MAX:
        raise invalid_config(f"more than {SUBJECTS_MAX} subjects, or {SUBJECTS_TEXT_MAX} bytes")
    for subject in subjects:
        if not is_pattern(subject.encode("utf-8", "surrogatepass")):
            raise invalid_config("invalid subject")
        if subject == ">" and not config.no_ack:
            raise invalid_config("capturing all subjects requires no-ack to be true")
        for own, what in OWN.items():
            if subject.startswith(own[:-1]):
                raise invalid_config(f"subject {subject!r} is the broker's own: {own}")
            if subject != ">" and not config.no_ack and meets(subject, own):
                raise invalid_config(f"subjects that overlap with {what} require no-ack to be true")


def is_name(name: str) -> bool:
    """True if a stream or a consumer may have this name."""
    return bool(name) and not NOT_IN_NAMES.intersection(name)


def meets(one: str, other: str) -> bool:
    """True if some subject matches both patterns."""
    return do_meet(one.encode().split(b"."), other.encode().split(b"."))


def has_subject(config: StreamConfig, subject: bytes) -> bool:
    """True if a stream with this configuration has a subject."""
    return any(covers(pattern.encode(), subject) for pattern in config.subjects)
