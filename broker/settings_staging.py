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
        " a restart of the publisher; what a lost one has left does not stay for long. Bytes that"
        " are there already and are sent again do not count.",
        flags=("--staging_expiry",),
        bounds=(0.1, 30 * DAY),
    )
    max_age: float = knob(
        6 * 3600.0,
        "duration",
        "How long a stage is kept in all, from its first byte on, whatever is added to it: so that"
        " nobody can hold room for good with a byte now and then. Six hours are longer than"
        " a batch takes.",
        flags=("--staging_max_age",),
        bounds=(0.1, 365 * DAY),
    )
    max_applications: int = knob(
        10_000,
        "count",
        "How many publishers' last batches are remembered. They are never forgotten, for then a"
        " batch could be published twice; one more is refused. 10 000 take some 5 MB.",
        flags=("--staging_max_applications",),
        bounds=(1, 10_000_000),
    )
    address_share: int = knob(
        50,
        "count",
        "How many percent of all this one address may have (with IPv6 one /64): of the bytes, the"
        " stages, the applications that are remembered, and the commits that wait. Half leaves"
        " room for others whatever it does, and to one machine that has all the work 2 GiB.",
        flags=("--staging_address_share",),
        bounds=(1, 100),
    )
    connection_share: int = knob(
        25,
        "count",
        "The same for one connection: half of its address's by default, for behind a proxy all"
        " clients have one address.",
        flags=("--staging_connection_share",),
        bounds=(1, 100),
    )
