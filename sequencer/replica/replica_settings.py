"""Times and sizes of fail-over. They decide how soon something happens, and never what may happen.

Times are in milliseconds. `min_in_sync`, which decides which views are allowed and what counts as
committed, is not here but in the view: all members must agree on it.
"""

from dataclasses import dataclass

SYNC_ALWAYS = "always"


@dataclass(frozen=True)
class ReplicaSettings:
    """The settings of one member. Only `sync` must be the same on all members."""

    sync: str = "interval"  # journal.sync: with `always`, only what is synced is acknowledged
    protocols: tuple[int, int] = (1, 1)  # the lowest and the highest that this program speaks

    # Liveness
    # Between two pulses of the coordinator. Ten a second cost nothing, and ten in a row must be
    # lost before anyone acts.
    pulse: float = 100
    slow: float = 1000  # a member that is silent for so long is removed from the view
    # The same, if publishing waits for a member that has always answered at once: two pulses, and
    # Linux's shortest wait until a lost packet is sent again.
    slow_least: float = 400
    calm: float = 5000  # after this time a late answer counts half
    probe: float = 50  # between two looks whether a member that hung up is still there
    dead: float = 1500  # a coordinator that is silent for so long is replaced
    rank: float = 250  # and this much later by each further member, so that they do not all try
    refused_rank: float = 100  # the same, if the coordinator's machine refuses connections
    stuck: float = 10_000  # a member that answers, and acknowledges nothing new, is removed
    dial: float = 200  # between two attempts to connect
    refused: float = 2000  # the same, after the coordinator has refused this member

    # The engine
    engine: float = 1000  # until it is asked again, if it does not answer
    reread: float = 5000  # now and then without a reason: a watch may have missed something

    # Joining
    # A member so close to the head may join: a few hundredths of a second. From then on nothing is
    # committed without it.
    near_bytes: int = 4 << 20
    near_time: float = 1000  # if it was so close for so long
    rejoin: float = 5000  # until one that was removed for slowness may come again; doubled
    rejoin_max: float = 300_000

    # Limits of what waits
    block_bytes: int = 640 << 10  # of records in one message: a batch of the sequencer as it is
    # Pulses and ACKs wait in line with these two, so they must take far less than `slow` to pass.
    window_bytes: int = 4 << 20  # sent to a member and not acknowledged
    forward_window: int = 1 << 20  # forwarded and not seen in the log
    uncommitted_bytes: int = 4 << 20  # written and not committed: more is not taken
    # Bytes a second by which one that catches up gets closer: 1 GiB in 8 s. More would leave less
    # of the coordinator's processor to live messages.
    copy_rate: int = 128 << 20
    # Of a member's clients, and not answered; above it publishers are not read. More than a flood
    # needs. With more, faster clients could go on publishing while another coordinator takes over.
    forward_bytes: int = 16 << 20
    patience: float = 2000  # new messages are refused after a stall of this length
    hand_over: float = 1000  # until a hand-over without an answer is given up
    disk: float = 5000  # after a failed write, until the disk is tried again
    fetch: float = 1000  # until a stage that is missing is asked for again
    id_window: float = 120_000  # journal.dedupe_window: how long an id is remembered

    @property
    def is_always(self) -> bool:
        """True if only synced records count."""
        return self.sync == SYNC_ALWAYS
