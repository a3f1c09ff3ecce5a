"""Makes the answers of two servers comparable: what may differ is removed, nothing else.

1  INFO: only whether it is the second one (`connect_info`) is kept.
2  The copies of one message to several subscriptions of a connection may come in any order.
3  Which member of a queue group gets a message is free: a sid like `q1a` counts as `q1`.
"""

import json
import re
from collections.abc import Iterable
from itertools import groupby

from tests.support.raw import Operation, operations

MEMBER = re.compile(rb"(q\d+)[a-z]\Z")

Plain = tuple[str | bytes, ...]


def _plain(operation: Operation) -> Plain:
    if operation.verb == "INFO":
        again = json.loads(operation.text).get("connect_info", False)
        return ("INFO", "second" if again else "first")
    sid = MEMBER.sub(rb"\1", operation.sid)
    return (
        operation.verb,
        operation.text,
        operation.subject,
        operation.reply,
        operation.sizes,
        operation.header,
        operation.payload,
        sid,
    )


def normal(said: Iterable[Operation]) -> list[Plain]:
    """The operations, with the copies of one message in a fixed order."""
    plain = [_plain(operation) for operation in said]
    result: list[Plain] = []
    for _, copies in groupby(plain, key=lambda entry: entry[:7]):
        result += sorted(copies, key=lambda entry: entry[-1:])
    return result


def normal_bytes(data: bytes) -> list[Plain]:
    return normal(operations(data))
