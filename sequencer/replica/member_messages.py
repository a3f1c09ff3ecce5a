"""Messages between the members of a cluster, and what they ask of the program around them.

`sequencer.replica.member_wire` puts the first kind into frames. The second kind are actions:
`Member.actions` collects them, and the driver (broker/cluster) carries them out in their order.
"""

from typing import Any, Final, NamedTuple

from sequencer.replica.view import View

# The status of a MemberReply, and of Done: as everywhere in `$SEQ.`.
OK: Final = 200
BAD: Final = 400  # not a request: what a member of this version does not send
MISSING: Final = 404  # a stage; or nothing is known
CONFLICT: Final = 409  # not the offset at which the stage goes on
BUSY: Final = 423  # another batch of this application is being published
CROWDED: Final = 429  # too many do so already
RETRY: Final = 503  # there is no coordinator, or it has changed
BROKEN: Final = 500  # what was promised cannot be read any more
FULL: Final = 507  # the disk
UNKNOWN: Final = (1 << 63) - 1  # a number that only the coordinator knows; above all numbers
Epochs = tuple[tuple[int, int], ...]  # (epoch, first number of it), oldest first


class Records(NamedTuple):
    """Whole records of one epoch, with consecutive numbers, as they are in the journal."""

    first: int
    last: int
    epoch: int
    data: bytes | memoryview


class Note(NamedTuple):
    """An entry of the second log. `fields` depends on the kind, and is JSON."""

    number: int  # of the second log
    epoch: int
    kind: str  # PREPARE, DONE, VOID, GROUPS or SNAPSHOT
    fields: dict[str, Any]


# From a member to the coordinator, on the connection that the member has made


class Hello(NamedTuple):
    """The first message on a connection: which member it is, and what its logs have."""

    protocols: tuple[int, int]  # the lowest and the highest that it speaks
    cluster: str
    journal: str  # 16 hex digits; zeros for a store that is new
    member: str
    run: int
    sync: str  # journal.sync
    epoch: int  # the highest that it knows
    epochs: Epochs
    last: int
    note_epochs: Epochs
    note_last: int


class Ack(NamedTuple):
    """The member has everything up to `number` and `note`, as safe as `sync` asks."""

    epoch: int
    number: int
    note: int
    pieces: int  # pieces of stages written on this connection
    echo: int  # the last pulse heard
    clock: int = 0  # the member's time of day, as `clock_of` says; 0: it does not say


class Forward(NamedTuple):
    """Publishes of the member's clients: records whose number, time, epoch and CRC are 0."""

    epoch: int
    data: bytes | memoryview


class StageFetch(NamedTuple):
    """A request for a stage that a PREPARE promises and that is missing from `offset` on."""

    epoch: int
    application: str
    batch: int
    name: str
    offset: int


class MemberRequest(NamedTuple):
    """A client's request for staging, which only the coordinator answers."""

    key: int
    word: str
    headers: dict[str, str]
    payload: bytes | bytearray


class Takers(NamedTuple):
    """The counts of this member's takers: (pattern, queue group, weight)."""

    epoch: int
    groups: tuple[tuple[bytes, bytes, int], ...]


class Leave(NamedTuple):
    """The member stops, and asks to be removed from the view."""

    epoch: int


# The first ones count only in the epoch that they name.
InEpochToCoordinator = Ack | Forward | StageFetch | Takers | Leave
ToCoordinator = Hello | MemberRequest | InEpochToCoordinator


# From the coordinator to a member


class Welcome(NamedTuple):
    """The answer to Hello: where the logs diverge, and where they continue."""

    epoch: int
    revision: int
    view: View
    common: int  # what the member has above it is cut
    base: int  # the coordinator's last number now: all that it took of this member is up to here
    base_epoch: int  # the epoch of the record at `common`
    anew: bool  # the member's log begins again, after `common`
    salt: int  # of the journal's records
    note_common: int


class NotCoordinator(NamedTuple):
    """The answer to Hello of a member that does not coordinate: the view that it knows."""

    why: str  # empty; or why this member cannot be taken
    revision: int
    view: View | None


# The beginning of the reason if a member's journal has lost what it had acknowledged.
LOST: Final = "it has lost what it had acknowledged"


class Data(NamedTuple):
    """Records, and how far they are committed. Without records: the watermark alone."""

    epoch: int
    watermark: int
    note_watermark: int
    records: Records | None


class AlreadyNumbered(NamedTuple):
    """A forwarded publish whose Nats-Msg-Id has a number already."""

    origin: int
    sequence: int  # of the origin
    number: int


class Pulse(NamedTuple):
    """A sign of life, sent every `pulse` milliseconds; the member's Ack echoes `beat`."""

    epoch: int
    beat: int
    watermark: int
    note_watermark: int
    revision: int
    view: View
    # How far back ids count: the oldest is of the number `watermark + 2 - ids`; 0: unknown.
    ids: int = 0


class Notes(NamedTuple):
    epoch: int
    note_watermark: int
    notes: tuple[Note, ...]


class StagePiece(NamedTuple):
    """A part of a stage. Acknowledged by the count in Ack."""

    epoch: int
    application: str
    batch: int
    name: str
    offset: int
    data: bytes | bytearray | memoryview


class StageDrop(NamedTuple):
    """A stage that is no longer needed."""

    epoch: int
    application: str
    batch: int
    name: str


class MemberReply(NamedTuple):
    """The answer to a MemberRequest."""

    key: int
    status: int
    headers: dict[str, str]
    payload: bytes


class HandOver(NamedTuple):
    """The hand-over to a member that has everything: the engine has made it coordinator."""

    revision: int
    view: View


# The first ones count only in the epoch of the coordinator that has sent them.
InEpochToMember = Data | Pulse | Notes | StagePiece | StageDrop
ToMember = Welcome | NotCoordinator | AlreadyNumbered | MemberReply | HandOver | InEpochToMember


# Between any two members, on a connection for messages without a number. The core knows nothing of
# them.


class DirectHello(NamedTuple):
    """The first message on such a connection: who has made it, and will send on it."""

    cluster: str
    member: str
    run: int


class DirectMessages(NamedTuple):
    """Messages without a number (broker/cluster/direct_block.py)."""

    data: bytes | bytearray | memoryview


class DirectHeard(NamedTuple):
    """The answer to those with a key: (key, how many clients got it here)."""

    counts: tuple[tuple[int, int], ...]


Direct = DirectHello | DirectMessages | DirectHeard
Message = ToCoordinator | ToMember | Direct


# Actions: what a member asks of its driver


class Send(NamedTuple):
    connection: int
    message: Message


class Dial(NamedTuple):
    """Connect to that member; then call `dialled`."""

    member: str


class Close(NamedTuple):
    connection: int


class ReadView(NamedTuple):
    """Read the engine's view, not a stale one; then call `engine_has`."""


class SwapView(NamedTuple):
    """Set the engine's view if its revision is still this one; then call `on_view`.

    Do not repeat it: its fate may be unknown.
    """

    revision: int
    view: View


class Deliver(NamedTuple):
    """Everything up to `number` is committed: it may be shown."""

    number: int


class Begin(NamedTuple):
    """Subscriptions that were made while `Member.published` was UNKNOWN begin after this number."""

    number: int


class LogCut(NamedTuple):
    """Records above `number` were removed from the log; they were never committed."""

    number: int


class Missed(NamedTuple):
    """The numbers `first` to `last` were deleted everywhere before they came here."""

    first: int
    last: int


class Abandon(NamedTuple):
    """Close the connections of these origins: the outcome of their publishes is unknown."""

    origins: frozenset[int]


class Done(NamedTuple):
    """The answer to a request of this member's client."""

    key: int
    status: int
    headers: dict[str, str]
    payload: bytes


class LostAcknowledged(NamedTuple):
    """A loss of what this member has acknowledged: it must become another member."""

    why: str


class Stop(NamedTuple):
    """End this process: it cannot go on, and has changed nothing (a defect, or a wrong engine)."""

    why: str


Action = (
    Send
    | Dial
    | Close
    | ReadView
    | SwapView
    | Deliver
    | Begin
    | LogCut
    | Missed
    | Abandon
    | Done
    | LostAcknowledged
    | Stop
)
