"""The errors of JetStream's API, as nats-server numbers them (its `server/errors.json`)."""

from typing import Any, Final

NOT_AVAILABLE: Final = 10008


class ApiError(Exception):
    """A refused request: an HTTP-like code, nats-server's own number, and what was wrong."""

    def __init__(self, code: int, number: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.number = number
        self.description = description

    def fields(self) -> dict[str, Any]:
        """Return the error as answers show it."""
        return {"code": self.code, "err_code": self.number, "description": self.description}


# All requests


def bad_request() -> ApiError:
    """A request without a usable body."""
    return ApiError(400, 10003, "bad request")


def not_empty() -> ApiError:
    """A request with a body that should have none."""
    return ApiError(400, 10038, "expected an empty request payload")


def not_available(why: str = "JetStream system temporarily unavailable") -> ApiError:
    """The streams are still being read after a start, or the disk takes no notes."""
    return ApiError(503, NOT_AVAILABLE, why)


def insufficient_resources() -> ApiError:
    """A client has too many requests open."""
    return ApiError(503, 10023, "insufficient resources")


def invalid_json(why: str) -> ApiError:
    """A request whose body is not what it should be, in Go's words."""
    return ApiError(400, 10025, f"invalid JSON: {why}")


def not_enabled() -> ApiError:
    """A request to a broker without streams."""
    return ApiError(503, 10076, "JetStream not enabled")


def not_clustered() -> ApiError:
    """A request for what only a cluster of nats-servers can do."""
    return ApiError(503, 10010, "JetStream clustering support required")


def not_in_cluster() -> ApiError:
    """A member of a cluster has no streams yet."""
    return ApiError(503, 10036, "not currently supported in clustered mode")


def required_level(level: str) -> ApiError:
    """A request that needs a newer API."""
    return ApiError(412, 10185, "JetStream minimum api level required") if level else not_enabled()


# Streams


def stream_not_found() -> ApiError:
    """There is no stream of this name."""
    return ApiError(404, 10059, "stream not found")


def not_deletable(name: str) -> ApiError:
    """The stream of everything is to be deleted."""
    return ApiError(400, 10050, f"{name} is the stream of everything, which is always there")


def no_subjects() -> ApiError:
    """The stream of everything is asked for its subjects."""
    return ApiError(400, 10003, "bad request: SEQ keeps no list of subjects; ask a stream of them")


def stream_name_in_use() -> ApiError:
    """A stream of this name exists, with another configuration."""
    return ApiError(400, 10058, "stream name already in use with a different configuration")


def stream_mismatch() -> ApiError:
    """The name in the subject is not the one in the request."""
    return ApiError(400, 10056, "stream name in subject does not match request")


def subjects_overlap() -> ApiError:
    """Another stream has some of these subjects."""
    return ApiError(400, 10065, "subjects overlap with an existing stream")


def too_many_streams() -> ApiError:
    """There are `streams.max_streams`."""
    return ApiError(400, 10027, "maximum number of streams reached")


def invalid_config(why: str) -> ApiError:
    """A configuration that no stream can have, or not here."""
    return ApiError(500, 10052, why)


def replicas_not_supported() -> ApiError:
    """One broker has one copy."""
    return ApiError(500, 10074, "replicas > 1 not supported in non-clustered mode")


def snapshot_failed() -> ApiError:
    """The journal is what is backed up."""
    return ApiError(500, 10064, "snapshots are not supported: copy the journal's directory")


def restore_failed() -> ApiError:
    """See `snapshot_failed`."""
    return ApiError(500, 10062, "restore is not supported: start with the journal's directory")


# Messages of a stream


def no_message() -> ApiError:
    """The stream shows no such message."""
    return ApiError(404, 10037, "no message found")


def sequence_not_found(number: int) -> ApiError:
    """The stream shows no message of this number."""
    return ApiError(400, 10043, f"sequence {number} not found")


def delete_not_permitted() -> ApiError:
    """The stream has `deny_delete`."""
    return ApiError(500, 10057, "message delete not permitted")


def nothing_to_delete() -> ApiError:
    """A request to delete number 0, or one below the first of a stream in files."""
    return ApiError(500, 10057, "no message found")


def beyond_the_end() -> ApiError:
    """A request to delete a number above the last of a stream in files."""
    return ApiError(500, 10057, "stream store EOF")


def too_many_deleted(most: int) -> ApiError:
    """As many messages as may be were deleted one by one."""
    return ApiError(500, 10057, f"{most} messages of this stream were deleted one by one; purge")


def purge_not_permitted() -> ApiError:
    """The stream has `deny_purge`."""
    return ApiError(500, 10110, "stream purge not permitted")


# Publishing


def other_stream() -> ApiError:
    """`Nats-Expected-Stream` names another stream."""
    return ApiError(400, 10060, "expected stream does not match")


def wrong_last(number: int) -> ApiError:
    """`Nats-Expected-Last-Sequence`, or that of a subject, is not this."""
    return ApiError(400, 10071, f"wrong last sequence: {number}")


def wrong_last_id(last: str) -> ApiError:
    """`Nats-Expected-Last-Msg-Id` is not this."""
    return ApiError(400, 10070, f"wrong last msg ID: {last}")


def invalid_expectation(header: str) -> ApiError:
    """A header that guards a publish is no number, or cannot be judged."""
    return ApiError(400, 10003, f"bad request: {header}")


def store_failed(why: str) -> ApiError:
    """The journal takes nothing: it is full, or failing."""
    return ApiError(503, 10077, why)


def not_permitted(number: int, code: int, description: str) -> ApiError:
    """A header for what streams do not have here."""
    return ApiError(code, number, description)


# Consumers' errors: the number, its code, and the text, in which `{}` is for what was wrong.

CONSUMER_ERRORS: Final[dict[int, tuple[int, str]]] = {
    10012: (500, "{}"),
    10013: (400, "consumer name already in use"),
    10014: (404, "consumer not found"),
    10016: (400, "consumer expected to be durable but no durable name set in subject"),
    10017: (400, "consumer name in subject does not match durable name in request"),
    10018: (400, "consumer expected to be durable but a durable name was not set"),
    10019: (400, "consumer expected to be ephemeral but detected a durable name set in subject"),
    10020: (400, "consumer expected to be ephemeral but a durable name was set in request"),
    10025: (400, "invalid JSON: {}"),
    10052: (500, "{}"),
    10056: (400, "stream name in subject does not match request"),
    10074: (500, "replicas > 1 not supported in non-clustered mode"),
    10078: (400, "consumer config required"),
    10079: (400, "consumer deliver subject has wildcards"),
    10080: (400, "consumer in push mode can not set max waiting"),
    10081: (400, "consumer deliver subject forms a cycle"),
    10082: (400, "consumer requires ack policy for max ack pending"),
    10083: (400, "consumer idle heartbeat needs to be >= 100ms"),
    10084: (400, "consumer in pull mode requires explicit ack policy on workqueue stream"),
    10085: (400, "consumer in pull mode requires a durable name"),
    10086: (400, "consumer in pull mode can not have rate limit set"),
    10087: (400, "consumer max waiting needs to be positive"),
    10088: (400, "consumer idle heartbeat requires a push based consumer"),
    10089: (400, "consumer flow control requires a push based consumer"),
    10090: (400, "consumer direct requires a push based consumer"),
    10091: (400, "consumer direct requires an ephemeral consumer"),
    10094: (400, "{}"),
    10095: (400, "failed to parse consumer sampling configuration: {}"),
    10098: (400, "workqueue stream requires explicit ack"),
    10099: (400, "multiple non-filtered consumers not allowed on workqueue stream"),
    10100: (400, "filtered consumer not unique on workqueue stream"),
    10101: (400, "consumer must be deliver all on workqueue stream"),
    10102: (400, "consumer name is too long, maximum allowed is {}"),
    10103: (400, "durable name can not contain '.', '*', '>'"),
    10105: (400, "consumer already exists and is still active"),
    10107: (400, "consumer description is too long, maximum allowed is {}"),
    10108: (400, "consumer with flow control also needs heartbeats"),
    10112: (400, "invalid push consumer deliver subject"),
    10115: (400, "consumer max request expires needs to be >= 1ms"),
    10116: (400, "max deliver is required to be > length of backoff values"),
    10121: (400, "consumer max ack pending exceeds system limit of {}"),
    10126: (400, "consumer config replica count exceeds parent stream"),
    10127: (400, "Consumer name can not contain path separators"),
    10131: (400, "Consumer create request did not match filtered subject from create subject"),
    10132: (400, "Consumer Durable and Name have to be equal if both are provided"),
    10133: (400, "replicas count cannot be negative"),
    10134: (400, "consumer config replicas must match interest retention stream's replicas"),
    10135: (400, "consumer metadata exceeds maximum size of {}"),
    10136: (400, "consumer cannot have both FilterSubject and FilterSubjects specified"),
    10137: (400, "consumer with multiple subject filters cannot use subject based API"),
    10138: (400, "consumer subject filters cannot overlap"),
    10139: (400, "consumer filter in FilterSubjects cannot be empty"),
    10148: (400, "consumer already exists"),
    10149: (400, "consumer does not exist"),
    10153: (400, "consumer inactive threshold exceeds system limit of {}"),
    10157: (400, "pedantic mode: {}"),
    10160: (400, "Provided priority group does not exist for this consumer"),
    10183: (400, "consumer ack wait needs to be positive"),
    10184: (400, "consumer backoff needs to be positive"),
    10204: (400, "invalid reset: {}"),
}


def consumer_error(number: int, *what: object) -> ApiError:
    """Return one of the consumers' errors, with what was wrong in the place of its `{}`."""
    code, text = CONSUMER_ERRORS[number]
    return ApiError(code, number, text.format(*what))


def too_many_consumers(why: str = "") -> ApiError:
    """There are as many as there may be: in all, of a stream, or of a client."""
    return ApiError(400, 10026, "maximum consumers limit reached" + (f": {why}" if why else ""))
