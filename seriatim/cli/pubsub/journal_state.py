"""Asks the broker for `seriatim sub` which journal it keeps, and up to which number.

A reconnect may reach another broker, or one whose journal was deleted: number 7 is then another
message. So the journal's id and its last number are checked before numbers are used again, and
before `--until-now` promises an end.
"""

import asyncio
import json
from dataclasses import dataclass

from seriatim.cli.errors import CliError
from seriatim.cli.pubsub.broker_client import CommandConnection
from seriatim.cli.pubsub.message_view import understand
from seriatim.cli.pubsub.sub_start import Past, first_lost, numbers
from seriatim.client.protocol import MessageReceived

ANSWER_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class JournalExtent:
    """The answer to `$SEQ.INFO`: the fields needed here."""

    journal: str  # its id
    last: int  # the last number assigned
    newest_ms: int  # when that was; 0: it keeps nothing
    in_memory: bool


async def read_state(link: CommandConnection) -> JournalExtent:
    """Ask what the broker keeps now. Raises `CliError`."""
    if not link.frame:
        raise CliError(f"{link.shown}: the server there keeps no messages")
    try:
        request = link.client.request("$SEQ.INFO", b"", timeout=ANSWER_SECONDS_MAX)
        fields = json.loads((await link.during(request)).data)
        return JournalExtent(
            str(fields["journal"]),
            int(fields["last"]),
            int(fields["newest"] or 0),
            fields["store"] == "memory",
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CliError(f"{link.shown}: the broker's answer to $SEQ.INFO is invalid") from error


def check_same(
    link: CommandConnection, before: JournalExtent, now: JournalExtent, shown: int
) -> None:
    """Raise `CliError` if numbers up to `shown` are no longer the same messages."""
    if now.journal != before.journal:
        why = ": it keeps messages only in memory, and was restarted" if now.in_memory else ""
        raise CliError(
            f"{link.shown}: the broker has another journal now, {now.journal} instead of"
            f" {before.journal}{why}; its numbers belong to other messages; start again with"
            " --from 1"
        )
    if now.last < shown:
        raise CliError(
            f"{link.shown}: number {shown} was shown, but the broker's last number is now"
            f" {now.last}: its journal was cut, and will give those numbers to other"
            " messages"
        )


async def until_now(link: CommandConnection, past: Past, kept: JournalExtent) -> Past | None:
    """`past` as a range that ends at the last number now; None if there is nothing."""
    first, last = past.first, min(past.last or kept.last, kept.last)
    if not first:
        if not kept.last or kept.newest_ms < past.since_ms:
            return None
        first = await _first_since(link, past)
    return numbers(first, last) if first <= last else None


def waits_for(past: Past, kept: JournalExtent) -> str:
    """Return a line to print if the wanted numbers do not exist yet; empty if they do."""
    if past.last > kept.last:
        awaited = max(past.first, kept.last + 1)
        these = f"{awaited} to {past.last}" if awaited < past.last else f"{past.last}"
        return (
            f"the last number given is {kept.last}: waiting for {these}; --until-now stops at"
            " the newest message"
        )
    if past.first > kept.last + 1:
        return f"the last number given is {kept.last}: waiting for {past.first}"
    return ""


async def _first_since(link: CommandConnection, past: Past) -> int:
    """The number of the first message at or after the time, on any subject."""
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def note(arrived: MessageReceived) -> None:
        number = first_lost(arrived.subject) or understand(arrived, link.frame).number
        if not found.done():
            found.set_result(number or 0)

    subscription = await link.during(link.client.subscribe(past.subject([">"]), on_message=note))
    number = await link.during(asyncio.wait_for(found, ANSWER_SECONDS_MAX))
    await link.during(subscription.unsubscribe())
    if not number:
        raise CliError(
            f"{link.shown}: messages have no numbers there, so --until-now cannot find the end;"
            " leave out --until-now"
        )
    return number
