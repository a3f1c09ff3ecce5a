"""Answers JetStream's API where there can be no streams: without a journal, or in a cluster."""

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.streams import api_errors
from broker.streams.api_json import encode
from sublist.subscription import Subscription

TYPE = "io.nats.jetstream.api.v1."


class NoStreams:
    """The same refusal for every request. `is_member`: of a cluster."""

    def __init__(self, core: Core, is_member: bool) -> None:
        self._plane = core.plane
        error = api_errors.not_in_cluster() if is_member else api_errors.not_enabled()
        self._error = error.fields()

    def acknowledge(
        self, connection: Connection, subject: bytes, reply: bytes, payload: bytes
    ) -> bool:
        """Take nothing: there are no consumers."""
        return False

    def subscribed(self, sub: Subscription) -> None:
        """Do nothing: there are no advisories."""

    def drop(self, connection: Connection) -> None:
        """Do nothing: nobody waits."""

    def serve(
        self, connection: Connection, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> bool:
        """Refuse a request."""
        words = subject.decode("utf-8", "replace").split(".")[2:4]
        kind = "account_info" if words[:1] == ["INFO"] else "_".join(words).lower()
        answer = encode({"type": f"{TYPE}{kind}_response", "error": self._error})
        if reply:
            self._plane.answer(connection, reply, answer, b"")
        return True
