"""The settings of staging: how much may be staged, for how long, and for how many applications."""

from dataclasses import dataclass

from seriatim.settings.setting import GIB, setting

STAGING = "staging"  # the directory in that of the journal
DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingSettings:
    """What publishers may stage, to have it published exactly once."""

    max_bytes: int = setting(
        4 * GIB,
        "size",
        "How many bytes may be staged at a time, by all publishers. They lie on the journal's disk"
        " until they are published, so leave it room; 4 GiB are 25 million messages of 128 bytes.",
        flags=("--staging_max_bytes",),
        bounds=(0, 1 << 49),
        zero="0: nothing may be staged",
    )
    max_stages: int = setting(
        4096,
        "count",
        "How many stages there may be at a time, of all publishers: one for each task of a job."
        " Each is a file, and a kilobyte of memory.",
        flags=("--staging_max_stages",),
        bounds=(1, 1_000_000),
    )
    expiry: float = setting(
        600.0,
        "duration",
        "How long a stage is kept that nobody adds to or commits, and how long a batch is"
        " remembered whose publisher asks for no more than that. Ten minutes outlast a retry, and"
        " a restart of the publisher; what a lost one has left does not stay for long. Bytes that"
        " are there already and are sent again do not count.",
        flags=("--staging_expiry",),
        bounds=(0.1, 30 * DAY),
    )
    max_age: float = setting(
        6 * 3600.0,
        "duration",
        "How long a stage is kept in all, from its first byte on, whatever is added to it: so that"
        " nobody can hold room for good with a byte now and then. Six hours are longer than"
        " a batch takes.",
        flags=("--staging_max_age",),
        bounds=(0.1, 365 * DAY),
    )
    application_expiry: float = setting(
        365 * DAY,
        "duration",
        "How long a publisher's last batch is remembered after it was committed: so long a batch"
        " that is committed again publishes nothing. Publishers that go on are never forgotten."
        " A year outlasts whatever a job that is started again from its checkpoint was stopped"
        " for; names that somebody made up do not stay for good.",
        flags=("--staging_application_expiry",),
        bounds=(60.0, 3650 * DAY),
    )
    max_applications: int = setting(
        10_000,
        "count",
        "How many publishers' last batches are remembered. One more takes the place of the oldest"
        " one of the address that has most, if that has more than `address_kept`; else it is"
        " refused. 10 000 take some 6 MB.",
        flags=("--staging_max_applications",),
        bounds=(1, 10_000_000),
    )
    address_kept: int = setting(
        1,
        "count",
        "How many percent of the publishers that are remembered an address keeps in any case,"
        " until their time is over: a batch of one that is forgotten could be published twice. So"
        " a hundred addresses, with IPv6 as many /64, are needed to leave no room for others.",
        flags=("--staging_address_kept",),
        bounds=(0, 100),
    )
    address_share: int = setting(
        50,
        "count",
        "How many percent of all this one address may have (with IPv6 one /64, and all of loopback"
        " is one): of the bytes, the stages, the applications that are remembered, and the commits"
        " that wait. Half leaves room for others whatever it does, and to one machine that has all"
        " the work 2 GiB. Where several take it all, who has little takes from who has most.",
        flags=("--staging_address_share",),
        bounds=(1, 100),
    )
    connection_share: int = setting(
        25,
        "count",
        "The same for one connection: half of its address's by default, for behind a proxy all"
        " clients have one address.",
        flags=("--staging_connection_share",),
        bounds=(1, 100),
    )
