"""Events of a client and of its readers, told to the function `on_event`, or else to the log."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from seriatim.client.errors import BrokerError

log = logging.getLogger("seriatim.client")

GOOD: Final = ("connected", "reading")


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """Something that happened to a client.

    disconnected  its connection broke: `error`
    connected     it has one, to `server`; also the first time
    interrupted   a `read` of `subject` has no connection any more, or none yet: `error`; it goes on
                  with `number` when it has one again
    reading       a `read` of `subject` has begun, or goes on, at `server`, from `number` on
    refused       the broker refused something that no call waits for: `error`
    slow          a subscription has ended, as it was not read fast enough: `error`
    """

    kind: Literal["disconnected", "connected", "interrupted", "reading", "refused", "slow"]
    error: BrokerError | None = None
    server: str = ""  # host:port
    subject: str = ""
    number: int = 0  # the next one; 0: not known yet

    def __str__(self) -> str:
        about = f" {self.subject}" if self.subject else ""
        on = f", from number {self.number} on" if self.number else ""
        return f"{self.kind}{about}{on}: {self.error or self.server}"


OnEvent = Callable[[ClientEvent], None]


def tell(on_event: OnEvent | None, event: ClientEvent) -> None:
    """Tell the user's function, or else the log."""
    if on_event is None:
        log.log(logging.INFO if event.kind in GOOD else logging.WARNING, "%s", event)
        return
    try:
        on_event(event)
    except Exception:
        log.exception("The function for events failed")
