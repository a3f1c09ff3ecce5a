"""The errors of JetStream's API, as nats-server numbers them (its `server/errors.json`)."""

from typing import Any, Final


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
    10026: (400, "maximum consumers limit reached"),
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
