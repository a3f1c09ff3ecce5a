"""The settings of the journal; broker/settings/settings.py includes them."""

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import GIB, KIB, MIB, setting

SYNCS = ("never", "interval", "always")
DAY = 86400.0
SEGMENT_BYTES_MIN = 64 * KIB
WINDOW_BYTES_MIN = 64 * KIB
SEGMENTS_RETAINED_MIN = 4  # of a journal with a limit in bytes: it shrinks by whole segments


class JournalSettings(FrozenFields):
    """The journal: how messages are kept, for how long, and what survives a crash."""

    enabled: bool = setting(
        True,
        "flag",
        "Keep every message on disk, in `store_dir`. Without a journal, numbers start again at 1"
        " when the broker does, and only what fits into `journal.ring_bytes` can be replayed.",
        flags=("--journal",),
        common=True,
    )
    sync: str = setting(
        "interval",
        "choice",
        "When messages must be on disk. With every value, what a client has seen survives a crash"
        " of the broker. If the machine crashes, `always` loses nothing, because nothing is shown"
        " before it is on disk. `interval` loses at most the last `journal.sync_interval`. `never`"
        " loses what the kernel had not written yet, about 30 s.",
        flags=("--sync",),
        choices=SYNCS,
        common=True,
    )
    sync_interval: float = setting(
        0.1,
        "duration",
        "How often the journal is synced, with `interval`. Ten syncs a second cost publishers"
        " nothing, because a thread makes them.",
        flags=("--sync_interval",),
        bounds=(0.001, 60.0),
        reload=True,
    )
    segment_bytes: int = setting(
        256 * MIB,
        "size",
        "How large one segment, a file of the journal, grows. Old messages are deleted by whole"
        " segments, so a segment is at most a quarter of `journal.retain_bytes`.",
        flags=("--segment_bytes",),
        bounds=(SEGMENT_BYTES_MIN, 64 * GIB),
        reload=True,
    )
    window_bytes: int = setting(
        64 * MIB,
        "size",
        "How large the journal window is, a file of the store that has the newest messages until"
        " they are in a segment on the disk. Its pages stay in memory, as many of them as the"
        " disk's speed makes necessary. Messages wait if it is full.",
        flags=("--journal_window_bytes",),
        bounds=(WINDOW_BYTES_MIN, GIB),
    )
    segment_age: float = setting(
        0.0,
        "duration",
        "How old a segment may become before the next one begins. With few messages,"
        " `journal.retain_age` needs it to have an effect.",
        flags=("--segment_age",),
        bounds=(0.0, 3650 * DAY),
        zero="0: until it is full",
        reload=True,
    )
    retain_bytes: int = setting(
        10 * GIB,
        "size",
        "How large the journal may become; the oldest segments above it are deleted. 10 GiB by"
        " default, because a full disk stops publishing.",
        flags=("--retain_bytes",),
        bounds=(0, 1 << 49),
        zero="0: no limit",
        reload=True,
        common=True,
    )
    retain_age: float = setting(
        0.0,
        "duration",
        "How long messages are kept; segments whose last message is older are deleted.",
        flags=("--retain_age",),
        bounds=(0.0, 36500 * DAY),
        zero="0: no limit",
        reload=True,
        common=True,
    )
    retain_count: int = setting(
        0,
        "count",
        "How many of the newest messages are kept, at least; segments that hold none of these are"
        " deleted.",
        flags=("--retain_count",),
        bounds=(0, 999_999_999_999_999),
        zero="0: no limit",
        reload=True,
    )
    ring_bytes: int = setting(
        4 * MIB,
        "size",
        "Without a journal, how many bytes of the newest messages are kept in memory for replay. 4"
        " MiB stay in the processor's cache.",
        flags=("--ring_bytes",),
        bounds=(0, 64 * GIB),
        zero="0: none",
    )
    dedupe_window: float = setting(
        120.0,
        "duration",
        "How long a `Nats-Msg-Id` is remembered: a second message with it gets no number, and its"
        " answer has the number of the first. Two minutes are longer than a publisher retries.",
        flags=("--dedupe_window",),
        bounds=(0.0, DAY),
        zero="0: the header is ignored",
    )
    dedupe_ids: int = setting(
        1_000_000,
        "count",
        "How many ids are remembered at most, of all publishers together. The oldest are forgotten"
        " first, so a client that publishes very many evicts those of others. A million take"
        " about 250 MB.",
        flags=("--dedupe_ids",),
        bounds=(0, 100_000_000),
        zero="0: the header is ignored",
    )

    accept_loss: bool = setting(
        False,
        "flag",
        "Start even if messages are missing at the end of the journal that were there when the"
        " broker stopped. They are then lost: this is reported to subscribers, and their numbers"
        " are not given again. Without this, the broker names them and does not start, because a"
        " copy may have them. Use it for one start only.",
        flags=("--accept_loss", "--accept-loss"),
    )

    @property
    def segment_limit(self) -> int:
        """The size that a segment may grow to: retention needs several segments."""
        if not self.retain_bytes:
            return self.segment_bytes
        quarter = max(self.retain_bytes // SEGMENTS_RETAINED_MIN, SEGMENT_BYTES_MIN)
        return min(self.segment_bytes, quarter)
