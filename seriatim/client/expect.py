"""Conditions under which a message is published: NATS' `Nats-Expected-*` headers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expect:
    """Conditions for a message: if one does not hold, it is refused and gets no number.

    `last`: the last number of the stream that holds the subject, or of the whole journal.
    `subject_last`: the last number of its subject, or of the subjects that match `subject`; 0:
    there is none yet. This one, and `last_id`, need a stream (`serve -js`). `stream`: the name of
    the stream that holds the subject. `last_id`: the `id` of the last message of that stream.
    """

    last: int | None = None
    subject_last: int | None = None
    subject: str = ""
    stream: str = ""
    last_id: str = ""

    def headers(self) -> dict[str, str]:
        """Return these as headers."""
        named = {
            "Nats-Expected-Last-Sequence": self.last,
            "Nats-Expected-Last-Subject-Sequence": self.subject_last,
            "Nats-Expected-Last-Subject-Sequence-Subject": self.subject or None,
            "Nats-Expected-Stream": self.stream or None,
            "Nats-Expected-Last-Msg-Id": self.last_id or None,
        }
        return {name: str(value) for name, value in named.items() if value is not None}
