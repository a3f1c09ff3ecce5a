"""What a forward table says: of records that came, and of entries that get no answer."""

from typing import Final, NamedTuple

NOBODY: Final = (1 << 64) - 1  # in place of a number: nobody waits for this entry any more


class Inspected(NamedTuple):
    """Sound records from the coordinator: what `ReplicatedLog.append` must know of them."""

    last: int  # the number of the last one
    time: int  # of the first one, ns since 1970
    last_time: int
    ids: bool  # one of them has a Nats-Msg-Id
