"""The knobs of staging: how much may be staged, for how long, and for how many applications."""

from dataclasses import dataclass

from broker.knob import GIB, knob

STAGING = "staging"  # the directory in that of the journal
DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingSettings:
    """What publishers may stage, to have it published exactly once."""

    max_bytes: int = knob(
        4 * GIB,
        "size",
        "How many bytes may be staged at a time, by all publishers. They lie on the journal's disk"
        " until they are published, so leave it room; 4 GiB are 25 million messages of 128 bytes.",
        flags=("--staging_max_bytes",),
        bounds=(0, 1 << 49),
        zero="0: nothing may be staged",
    )
    max_stages: int = knob(
        4096,
        "count",
        "How many stages there may be at a time, of all publishers: one for each task of a job."
        " Each is a file, and a kilobyte of memory.",
        flags=("--staging_max_stages",),
        bounds=(1, 1_000_000),
    )
    expiry: float = knob(
        600.0,
        "duration",
        "How long a stage is kept that nobody adds to or commits, and how long a batch is"
        " remembered whose publisher asks for no more than that. Ten minutes outlast a retry, and"
        " a restart of the publisher; what a lost one has left does not stay for long.",
        flags=("--staging_expiry",),
        bounds=(0.1, 30 * DAY),
    )
    max_applications: int = knob(
        10_000,
        "count",
        "How many publishers' last batches are remembered. They are never forgotten, for then a"
        " batch could be published twice; one more is refused. 10 000 take some 5 MB.",
        flags=("--staging_max_applications",),
        bounds=(1, 10_000_000),
    )
