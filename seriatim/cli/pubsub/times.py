"""The times when messages were published, from the broker, for `seriatim sub --json`.

A message reaches a subscriber without its time. `$SEQ.READ` gives the times of consecutive numbers,
16 bytes a message, so there is one request for each batch. A message without a number, or one that
is not kept, gets the time at which it was received.
"""

import json
from dataclasses import replace

from seriatim.cli.pubsub.broker_client import CommandConnection
from seriatim.cli.pubsub.message_view import ShownMessage
from seriatim.cli.pubsub.sub_start import common
from seriatim.client.protocol import MessageReceived

ANSWER_SECONDS_MAX = 10.0
FILTERS_MAX = 64  # per request
BYTES_MAX = 16 << 20  # of messages scanned for one answer


async def dated(
    link: CommandConnection, batch: list[ShownMessage], subjects: list[str]
) -> list[ShownMessage]:
    """The messages, with the broker's times if it has them. Raises `CliError`."""
    numbers = [message.number for message in batch if message.number is not None]
    if not numbers or not link.frame:
        return batch
    filters = subjects if len(subjects) <= FILTERS_MAX else [common(subjects)]
    times: dict[int, int] = {}
    at, last = min(numbers), max(numbers)
    while at <= last:
        query = {
            **{"from": at, "to": last, "subject": filters, "format": "times"},
            **{"max_bytes": BYTES_MAX, "chunk_bytes": BYTES_MAX},
        }
        request = link.client.request(
            "$SEQ.READ", json.dumps(query).encode(), timeout=ANSWER_SECONDS_MAX
        )
        answer = await link.during(request)
        times |= _times(answer)
        following = answer.headers.get("Seriatim-Next", "")
        if not following.isdigit() or int(following) <= at:
            break  # refused: this broker keeps nothing
        at = int(following)
    return [
        replace(message, time=times.get(message.number or 0, message.time)) for message in batch
    ]


def _times(answer: MessageReceived) -> dict[int, int]:
    """The times by number: an array of numbers, followed by one of times."""
    if len(answer.data) % 16:
        return {}
    values = memoryview(answer.data).cast("q")
    rows = len(values) // 2
    return dict(zip(values[:rows], values[rows:], strict=True))
