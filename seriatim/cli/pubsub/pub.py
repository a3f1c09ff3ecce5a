"""`seriatim pub`: publishes a message; `--ack` prints its number."""

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sequencer.netstring import NetstringError, decode_number
from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.pubsub.broker_client import CommandConnection, connected
from seriatim.client.errors import NoResponders
from seriatim.settings.checked import WrongValue, is_text, quoted
from seriatim.settings.subjects import check_subject

ACK_PREFIX = "$SEQ.PUB."
CONFIRM_EVERY = 1 << 20  # bytes of payloads between two checks that the broker has them
_HEADER_KEY = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Publication:
    """A message to publish, and how often."""

    subject: str
    payload: bytes
    count: int = 1
    reply: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    ack: bool = False
    timeout: float = 5.0


def publish(access: BrokerAccess, publication: Publication, say: Callable[[str], None]) -> None:
    """Publish; `say` gets the numbers with `ack`, or else one line. Raises `CliError`."""
    # to the broker that is a question, not a message
    if publication.ack and not publication.payload:
        raise UsageError(
            "an empty payload asks for the current number; it cannot be published with --ack"
        )
    asyncio.run(_publish(access, publication, say))


def read_payload(payload: str | None, file: str | None) -> bytes:
    """The payload: the argument, the file, or standard input (also as "-")."""
    if payload is not None and file is not None:
        raise UsageError("give the payload or --file, not both")
    if file not in (None, "-"):
        try:
            return Path(str(file)).read_bytes()
        except OSError as error:
            raise CliError(f"{file}: cannot be read: {error.strerror}") from error
    if payload is not None and payload != "-":
        return payload.encode("utf-8", "surrogateescape")  # arbitrary bytes, as given
    if sys.stdin is None or (sys.stdin.isatty() and payload is None and file is None):
        raise UsageError(
            "there is no payload: give it after the subject, with --file, or in a pipe;"
            " - reads what you type"
        )
    return sys.stdin.buffer.read()


def read_headers(lines: list[str]) -> dict[str, str]:
    """Headers written as `Key: value`. Raises `UsageError`."""
    headers: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if not colon or not _HEADER_KEY.fullmatch(key.strip()) or not value.isprintable():
            raise UsageError(f"{quoted(line)} is not a header; write -H 'Key: value'")
        name = key.strip()
        if name in headers:
            raise UsageError(f"the header {quoted(name)} is given twice; a key has one value here")
        headers[name] = value.strip()
    return headers


def checked_queue(queue: str) -> str:
    """`queue` itself, if it can be the name of a queue group."""
    if not queue:
        raise UsageError("-q needs the name of a queue group; leave it out to get every message")
    if any(character.isspace() for character in queue):
        raise UsageError(
            f"{quoted(queue)} is not a valid name for a queue group; give one without blanks"
        )
    if not is_text(queue):
        raise UsageError(
            f"{quoted(queue)} is not a valid name for a queue group; give one in UTF-8"
        )
    return queue


def checked_subject(subject: str, *, wildcards: bool) -> str:
    """`subject` itself, if it can be published (or subscribed) to."""
    try:
        return check_subject(subject, wildcards)
    except WrongValue as wrong:
        raise UsageError(str(wrong)) from wrong


async def _publish(
    access: BrokerAccess, publication: Publication, say: Callable[[str], None]
) -> None:
    async with connected(access) as link:
        size, limit = len(publication.payload), link.client.max_payload
        if size > limit:
            raise CliError(f"the payload has {size} bytes, but the broker accepts at most {limit}")
        if publication.ack:
            for _ in range(publication.count):
                say(str(await link.during(_acknowledged(link, publication))))
            return
        progress = _Progress()
        try:
            await link.during(_sent(link, publication, progress))
        except CliError as error:
            raise CliError(f"{error}{progress.words(publication)}") from error
        except asyncio.CancelledError:  # Ctrl-C
            print(f"seriatim: interrupted{progress.words(publication)}", file=sys.stderr)
            raise
        times = f"{publication.count} messages" if publication.count > 1 else "1 message"
        sized = f"{size} bytes" if size != 1 else "1 byte"
        say(f"published {times} of {sized} to {publication.subject}")


class _Progress:
    """Counts of messages written to the connection, and of those that the broker has."""

    def __init__(self) -> None:
        self.written = self.confirmed = 0

    def words(self, publication: Publication) -> str:
        """Describe the progress, for the end of an error message."""
        if publication.count == 1:
            return ""
        return (
            f"; of {publication.count} messages the broker confirmed {self.confirmed}, and may have"
            f" up to {self.written}"
        )


async def _sent(link: CommandConnection, publication: Publication, progress: _Progress) -> None:
    every = max(1, CONFIRM_EVERY // (len(publication.payload) + 100))
    for number in range(1, publication.count + 1):
        progress.written = number
        await link.client.publish(
            publication.subject,
            publication.payload,
            reply=publication.reply,
            headers=publication.headers or None,
        )
        if number % every == 0 or number == publication.count:
            await link.settle(publication.timeout)
            progress.confirmed = number


async def _acknowledged(link: CommandConnection, publication: Publication) -> int:
    """Publish once and return the number the broker assigned."""
    try:
        answer = await link.client.request(
            ACK_PREFIX + publication.subject,
            publication.payload,
            timeout=publication.timeout,
            headers=publication.headers or None,
        )
    except NoResponders as error:
        raise CliError(f"{link.shown}: the server there does not number messages") from error
    if answer.status and not answer.data:
        why = answer.description or f"status {answer.status}"
        raise CliError(f"{link.shown}: the broker refused: {why}")
    try:
        return decode_number(answer.data)
    except NetstringError as error:
        raise CliError(f"{link.shown}: the answer is not a number: {error}") from error
