"""`seriatim pub`: publishes a message; `--ack` publishes it exactly once, and prints its number."""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.progress import Step, bar
from seriatim.cli.pubsub.broker_client import CommandConnection, connected
from seriatim.client.errors import BrokerError, NotAllPublished, NotSeriatim, Refused
from seriatim.client.stream_publishing import Outgoing
from seriatim.settings.checked import WrongValue, is_text, quoted
from seriatim.settings.subjects import check_subject

CONFIRM_EVERY = 1 << 20  # bytes of payloads between two checks that the broker has them
Say = Callable[[str], None]
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


def publish(access: BrokerAccess, publication: Publication, say: Say) -> None:
    """Publish; `say` gets the numbers with `ack`, or else one line. Raises `CliError`."""
    if publication.ack and publication.reply:
        raise UsageError("the broker's answer takes the place of --reply; leave out --ack")
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
            f"{quoted(queue)} is not a valid name for a queue group; give one without spaces"
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
        # In a shell, an unquoted `orders.>` is `orders.`, and a redirection to the next word.
        hint = f"; quote wildcards: '{subject}>'" if wildcards and subject.endswith(".") else ""
        raise UsageError(f"{wrong}{hint}") from wrong


async def _publish(access: BrokerAccess, publication: Publication, say: Say) -> None:
    progress = PublishProgress(publication)
    publishing = _numbered if publication.ack else _sent
    again = publication.timeout if publication.ack else False
    async with connected(access, again) as link:
        size, limit = len(publication.payload), link.client.max_payload
        if size > limit:
            raise CliError(f"the payload has {size} bytes, but the broker accepts at most {limit}")
        try:
            with _bar(publication) as progress.show:
                await link.during(publishing(link, publication, progress, say))
        except CliError as error:
            raise CliError(f"{error}{progress.words()}") from error
        except asyncio.CancelledError:  # Ctrl-C
            print(f"seriatim: interrupted{progress.words()}", file=sys.stderr)
            raise
    if not publication.ack:
        times = f"{publication.count} messages" if publication.count > 1 else "1 message"
        say(f"published {times} of {size} byte{'s' * (size != 1)} to {publication.subject}")


@contextmanager
def _bar(publication: Publication) -> Iterator[Step]:
    """A progress bar for many messages, unless their numbers go to the same terminal."""
    out = sys.stdout
    if publication.count == 1 or (publication.ack and out is not None and out.isatty()):
        yield lambda done: None
        return
    with bar("publishing", publication.count, "messages") as shown:
        yield shown


class PublishProgress:
    """Counts of messages given to the connection, and of those that the broker has."""

    def __init__(self, publication: Publication) -> None:
        self.written = self.confirmed = 0
        self.show: Step = lambda done: None
        self._count = publication.count

    def confirm(self, confirmed: int) -> None:
        """Note how many the broker has."""
        self.confirmed = confirmed
        self.show(confirmed)

    def words(self) -> str:
        """Describe the progress, for the end of an error message."""
        if self._count == 1:
            return ""
        return (
            f"; of {self._count} messages the broker confirmed {self.confirmed}, and may have up"
            f" to {self.written}"
        )


async def _sent(
    link: CommandConnection, publication: Publication, progress: PublishProgress, say: Say
) -> None:
    """Publish as plain NATS does, and ask now and then whether the broker has it."""
    every = _together(publication)
    for number in range(1, publication.count + 1):
        progress.written = number
        await link.client.publish_unconfirmed(
            publication.subject,
            publication.payload,
            reply=publication.reply,
            headers=publication.headers or None,
        )
        if number % every == 0 or number == publication.count:
            await link.settle(publication.timeout)
            progress.confirm(number)


async def _numbered(
    link: CommandConnection, publication: Publication, progress: PublishProgress, say: Say
) -> None:
    """Publish each message once, many together; say the numbers as they come."""
    message = publication.subject, publication.payload, publication.headers or None
    try:
        while progress.confirmed < publication.count:
            size = min(_together(publication), publication.count - progress.confirmed)
            progress.written = progress.confirmed + size
            numbers, failure = await _published(link, repeat(message, size), publication.timeout)
            if numbers:
                say("\n".join(map(str, numbers)))
                progress.confirm(progress.confirmed + len(numbers))
            if failure is not None:
                raise failure
    except NotSeriatim:
        raise CliError(f"{link.shown}: the server there does not number messages") from None
    except Refused as error:
        raise CliError(f"{link.shown}: the broker refused: {error.reason}") from None


async def _published(
    link: CommandConnection, messages: Iterable[Outgoing], timeout: float
) -> tuple[list[int], BrokerError | None]:
    """Publish; return the numbers up to the first message that failed, and why."""
    try:
        return await link.client.publish_all(messages, timeout=timeout), None
    except NotAllPublished as error:
        return error.numbers[: error.index], error.errors[error.index]


def _together(publication: Publication) -> int:
    """Return how many messages are published between two looks at what the broker has."""
    return max(1, CONFIRM_EVERY // (len(publication.payload) + 100))
