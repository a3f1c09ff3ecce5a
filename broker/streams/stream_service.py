"""The streams of one broker, as the server starts and stops them."""

import logging
import os
from collections.abc import Iterator
from typing import Any, Final

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.ledger import Ledger
from broker.storage.note_file import read_notes
from broker.streams.consumers import RunningConsumer
from broker.streams.id_scopes import IdScopes
from broker.streams.infos import (
    StateRequest,
    consumer_info,
    leave_versions_out,
    state_at_once,
    stream_info,
    stream_state,
)
from broker.streams.stream_api import Api
from broker.streams.stream_config import API_LEVEL
from broker.streams.stream_view import Stream
from broker.streams.streams import FOLDER, Streams
from broker.version import NATS_VERSION
from sequencer.journal.store import Store
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

# Monitoring looks the first message of a stream up if it has no more subjects than these: all are
# compared, in some milliseconds.
SUBJECTS_COMPARED: Final = 32_768


def recall_scopes(folder: str) -> IdScopes:
    """Return where ids count in streams, as the notes in a store's directory have it."""
    scopes = IdScopes()
    scopes.recall(read_notes(os.path.join(folder, FOLDER)))
    return scopes


class StreamService:
    """Streams, and the API to them. For the broker's one thread."""

    def __init__(self, core: Core, journal: Store, server_name: str, scopes: IdScopes) -> None:
        """Read what earlier brokers have noted. Raises `OSError` and `StoreError`."""
        self._server_name = server_name
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
        """Take an ack, or an answer to flow control; False if there is no such consumer."""
        consumers = self.streams.consumers
        if subject.startswith(b"$JS.FC."):
            consumers.flow(subject)
            return True
        return consumers.acknowledge(connection, subject, reply, payload)

    def subscribed(self, sub: Subscription) -> None:
        """Take a subscription whose subject begins with `$JS.`: advisories may be for it."""
        self.streams.advisories.subscribed(sub)

    def drop(self, connection: Connection) -> None:
        """Forget what a connection that has closed waits for."""
        self.streams.consumers.drop(connection)

    def is_ready(self) -> bool:
        """True if all ledgers are complete."""
        return self.streams.is_ready

    # What monitoring shows

    @property
    def ledgers(self) -> Iterator[Ledger]:
        """The ledgers of all streams."""
        return (stream.ledger for stream in self.streams.by_name.values())

    @property
    def api_level(self) -> int:
        """The level of JetStream's API that is answered."""
        return int(API_LEVEL)

    def problem(self, be_ready: bool) -> str:
        """Say why streams cannot be used; with `be_ready`, also that they cannot be used yet."""
        if self.streams.problem or self.streams.is_ready or not be_ready:
            return self.streams.problem
        return "streams are not ready: the journal is being read for them"

    async def stream_detail(self, stream: Stream, with_config: bool) -> dict[str, Any]:
        """Return what /jsz shows of a stream, besides its consumers."""
        ledger, streams = stream.ledger, self.streams
        is_long = stream.lock.locked() or len(ledger.entries) > SUBJECTS_COMPARED
        if ledger.first or is_long or not streams.is_ready:
            streams.core.plane.sequencer.release()
            state = state_at_once(streams, stream)
        else:
            state, _ = await stream_state(streams, stream, len(stream.consumers), StateRequest())
        info = stream_info(stream, state, self._server_name)
        leave_versions_out([info])
        shown = {"name": stream.name}
        for name in ("created", "cluster", *(("config",) if with_config else ()), "state"):
            shown[name] = info[name]
        return shown

    def consumer_detail(self, consumer: RunningConsumer, with_config: bool) -> dict[str, Any]:
        """Return what /jsz shows of a consumer: nats-server's fields, and our `state`, `lost`."""
        shown = consumer_info(consumer, NATS_VERSION)
        if with_config:
            leave_versions_out([shown])
        else:
            del shown["config"]
        machine = consumer.machine
        return shown | {"state": machine.state.name.lower(), "lost": machine.lost}

    def start(self) -> None:
        """Begin to read the journal."""
        self.streams.start()

    async def stop(self) -> None:
        """Stop; what is noted is on the disk then."""
        await self.api.stop()
        await self.streams.stop()
