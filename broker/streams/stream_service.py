"""The streams of one broker, as the server starts and stops them."""

import logging
import os

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.storage.note_file import read_notes
from broker.streams.id_scopes import IdScopes
from broker.streams.stream_api import Api
from broker.streams.streams import FOLDER, Streams
from sequencer.journal.store import Store

log = logging.getLogger("seriatim")


def recall_scopes(folder: str) -> IdScopes:
    """Return where ids count in streams, as the notes in a store's directory have it."""
    scopes = IdScopes()
    scopes.recall(read_notes(os.path.join(folder, FOLDER)))
    return scopes


class StreamService:
    """Streams, and the API to them. For the broker's one thread."""

    def __init__(self, core: Core, journal: Store, server_name: str, scopes: IdScopes) -> None:
        """Read what earlier brokers have noted. Raises `OSError` and `StoreError`."""
        self.streams = Streams(core, journal, scopes)
        self.api = Api(core, self.streams, server_name)
        core.plane.open_streams(self.streams.table, self.streams.consumers.acks)

    def serve(
        self, connection: Connection, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> bool:
        """Serve a request, now or later; False if there is nothing to ask of that subject."""
        return self.api.serve(connection, subject, reply, headers, body)

    def acknowledge(
        self, connection: Connection, subject: bytes, reply: bytes, payload: bytes
    ) -> bool:
        """Take an ack, or the answer to a flow control request; False if nobody expects it."""
        consumers = self.streams.consumers
        if subject.startswith(b"$JS.FC."):
            consumers.flow(subject)
            return True
        return consumers.acknowledge(connection, subject, reply, payload)

    def drop(self, connection: Connection) -> None:
        """Forget what a connection that has closed waits for."""
        self.streams.consumers.drop(connection)

    def is_ready(self) -> bool:
        """True if all ledgers are complete."""
        return self.streams.is_ready

    def start(self) -> None:
        """Begin to read the journal."""
        self.streams.start()

    async def stop(self) -> None:
        """Stop; what is noted is on the disk then."""
        await self.api.stop()
        await self.streams.stop()
