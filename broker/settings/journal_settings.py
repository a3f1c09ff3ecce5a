"""The settings of the journal, in the one table of broker/settings/settings.py."""

from dataclasses import dataclass

from seriatim.settings.setting import GIB, KIB, MIB, setting

SYNCS = ("never", "interval", "always")
DAY = 86400.0
SEGMENT_BYTES_MIN = 64 * KIB
SEGMENTS_RETAINED_MIN = 4  # of a journal with a limit in bytes: it shrinks by whole segments


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """How messages are kept, for how long, and what survives a crash."""

    enabled: bool = setting(
        True,
        "flag",
        "Keep every message on disk, in `store_dir`. Without, numbers start again at 1 when the"
        " broker does, and only what fits into `journal.ring_bytes` can be replayed.",
        flags=("--journal",),
    )
    sync: str = setting(
        "interval",
        "choice",
        "When the disk must have a message. With any of them, what was shown to anyone survives a"
        " crash of the broker. A crash of the machine loses nothing with `always`, for nothing is"
        " shown before the disk has it; with `interval` the last `journal.sync_interval`; with"
        " `never` what the kernel had not written yet, some 30 s.",
        flags=("--sync",),
        choices=SYNCS,
    )
    sync_interval: float = setting(
        0.1,
        "duration",
        "How often the disk is made to have everything, with `interval`. Ten times a second"
        " costs publishers nothing, for it is done beside them.",
        flags=("--sync_interval",),
        bounds=(0.001, 60.0),
    )
    segment_bytes: int = setting(
        256 * MIB,
        "size",
        "How large one file of the journal grows. Old messages go by whole files, and a file is"
        " at most a quarter of `journal.retain_bytes`.",
        flags=("--segment_bytes",),
        bounds=(SEGMENT_BYTES_MIN, 64 * GIB),
    )
    segment_age: float = setting(
        0.0,
        "duration",
        "How old one file of the journal may become before the next is begun, so that"
        " `journal.retain_age` comes to hold where few messages are.",
        flags=("--segment_age",),
        bounds=(0.0, 3650 * DAY),
        zero="0: as old as it takes to fill it",
    )
    retain_bytes: int = setting(
        10 * GIB,
        "size",
        "How much is kept: the oldest files over it are deleted. 10 GiB by default, for a"
        " full disk stops publishing.",
        flags=("--retain_bytes",),
        bounds=(0, 1 << 49),
        zero="0: no limit",
    )
    retain_age: float = setting(
        0.0,
        "duration",
        "For how long messages are kept: files whose last message is older are deleted.",
        flags=("--retain_age",),
        bounds=(0.0, 36500 * DAY),
        zero="0: no limit",
    )
    retain_count: int = setting(
        0,
        "count",
        "How many messages are kept, at least: files that hold none of the last so many are"
        " deleted.",
        flags=("--retain_count",),
        bounds=(0, 999_999_999_999_999),
        zero="0: no limit",
    )
    ring_bytes: int = setting(
        4 * MIB,
        "size",
        "Without a journal, how many bytes of the last messages are kept in memory, for replay."
        " 4 MiB stay in the processor's cache.",
        flags=("--ring_bytes",),
        bounds=(0, 64 * GIB),
        zero="0: none",
    )
    dedupe_window: float = setting(
        120.0,
        "duration",
        "For how long a `Nats-Msg-Id` is remembered: a second message with it gets no number,"
        " but is answered the first one's. Two minutes outlast the retries of a publisher.",
        flags=("--dedupe_window",),
        bounds=(0.0, DAY),
        zero="0: such headers mean nothing here",
    )
    dedupe_ids: int = setting(
        1_000_000,
        "count",
        "How many ids are remembered at most, of all publishers together; the oldest are forgotten"
        " first, so a client that publishes very many pushes out those of others. A million takes"
        " some 240 MB.",
        flags=("--dedupe_ids",),
        bounds=(0, 100_000_000),
        zero="0: such headers mean nothing here",
    )

    accept_loss: bool = setting(
        False,
        "flag",
        "Start also where messages are missing at the end of the journal that were there when the"
        " broker stopped: they are lost then, which subscribers are told, and their numbers are"
        " not given again. Without, the broker names them and does not start, for a copy may have"
        " them. Give it for one start.",
        flags=("--accept_loss", "--accept-loss"),
    )

    @property
    def segment_limit(self) -> int:
        """What a segment may really grow to: retention needs more than one of them."""
        if not self.retain_bytes:
            return self.segment_bytes
        quarter = max(self.retain_bytes // SEGMENTS_RETAINED_MIN, SEGMENT_BYTES_MIN)
        return min(self.segment_bytes, quarter)
