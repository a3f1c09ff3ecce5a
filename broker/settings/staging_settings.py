"""The settings of staging: how much can be staged, for how long, and by how many applications."""

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import GIB, setting

STAGING = "staging"  # the directory inside the journal's
DAY = 86400.0


class StagingSettings(FrozenFields):
    """The limits of what publishers may stage for exactly-once publishing."""

    max_bytes: int = setting(
        4 * GIB,
        "size",
        "How many bytes may be staged at a time, by all publishers together. They stay on the"
        " journal's disk until they are published, so leave room for them. 4 GiB are 25 million"
        " messages of 128 bytes.",
        flags=("--staging_max_bytes",),
        bounds=(0, 1 << 49),
        zero="0: nothing may be staged",
    )
    max_stages: int = setting(
        4096,
        "count",
        "How many stages there may be at a time, of all publishers together. A job needs one for"
        " each task. Each stage is a file, and a kilobyte of memory.",
        flags=("--staging_max_stages",),
        bounds=(1, 1_000_000),
    )
    expiry: float = setting(
        600.0,
        "duration",
        'How long a stage is kept without an addition or a commit. A batch with `"remember": false`'
        " is remembered for this long, too. Ten minutes are longer than a retry or a restart of"
        " the publisher takes. What a lost publisher leaves does not stay for long. Bytes that are"
        " already there and are sent again do not extend the time.",
        flags=("--staging_expiry",),
        bounds=(0.1, 30 * DAY),
    )
    max_age: float = setting(
        6 * 3600.0,
        "duration",
        "How long a stage is kept in all, from its first byte, whatever is added to it. Without"
        " this limit a client could hold room forever with a byte now and then. Six hours are"
        " longer than a batch takes.",
        flags=("--staging_max_age",),
        bounds=(0.1, 365 * DAY),
    )
    application_expiry: float = setting(
        365 * DAY,
        "duration",
        "How long a publisher's last batch is remembered after its commit. During this time a"
        " batch that is committed again publishes nothing. Publishers that go on are never"
        " forgotten. A year is longer than a job is stopped before it starts again from its"
        " checkpoint. So made-up names do not stay forever.",
        flags=("--staging_application_expiry",),
        bounds=(60.0, 3650 * DAY),
    )
    max_applications: int = setting(
        10_000,
        "count",
        "How many publishers' last batches are remembered. One more replaces the oldest one of the"
        " address that has most, if that address has more than 1 %; otherwise it is"
        " refused. 10 000 take 5 to 7 MB.",
        flags=("--staging_max_applications",),
        bounds=(1, 10_000_000),
    )
    address_share: int = setting(
        50,
        "count",
        "What percentage of staging's limits one address may have. They are the bytes, the stages,"
        " the remembered applications and the waiting commits. With IPv6 a /64 is one address."
        " Half leaves room for others whatever one address does, and 2 GiB"
        " for a machine that does all the work. If several addresses together have everything, one"
        " with little takes from the one with most.",
        flags=("--staging_address_share",),
        bounds=(1, 100),
    )
    connection_share: int = setting(
        25,
        "count",
        "What percentage of staging's limits one connection may have. By default half of what its"
        " address may have, because behind a proxy all clients have one address.",
        flags=("--staging_connection_share",),
        bounds=(1, 100),
    )
