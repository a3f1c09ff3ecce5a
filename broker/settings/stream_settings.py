"""The settings of streams: JetStream's API over the journal."""

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import setting


class StreamSettings(FrozenFields):
    """The settings of streams: whether there are any, and how many."""

    enabled: bool = setting(
        False,
        "flag",
        "Serve JetStream's API, so that NATS applications keep streams of messages here."
        " docs/streams.md explains what they are. They need a journal on disk. Off by default: then"
        " subjects that begin with `$JS.API.` are as others.",
        flags=("-js", "--jetstream"),
        common=True,
    )
    max_streams: int = setting(
        1000,
        "count",
        "How many streams there may be. Each message is compared with their subjects, at one look"
        " however many there are. A stream takes 2 KB, and 170 bytes for each of its subjects.",
        flags=("--max_streams",),
        bounds=(1, 100_000),
    )
    max_consumers: int = setting(
        10_000,
        "count",
        "How many consumers all streams together may have. A consumer that is waiting takes 4 KB.",
        flags=("--max_consumers",),
        bounds=(1, 1_000_000),
    )
    max_subjects: int = setting(
        1_000_000,
        "count",
        "How many subjects with messages all streams together may have; each takes some 170 bytes."
        " Then a publish to another one that asks for a pub ack is refused (10047), and one that"
        " does not is numbered and delivered, but is in no stream.",
        flags=("--max_subjects",),
        bounds=(1, 1_000_000_000),
    )
