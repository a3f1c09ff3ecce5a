"""The view of a cluster in etcd, and the list of its members.

    /seriatim/NAME/view         the view, changed by transactions on its mod_revision
    /seriatim/NAME/runs         a counter: how many processes there were
    /seriatim/NAME/run/ID       the newest process of a member, without a lease: it outlives it
    /seriatim/NAME/member/ID    who is there, each under a lease of its process
    /seriatim/NAME/request/ID   what an operator asks (etcd_requests.py)

`watch` is one stream for all keys. It resumes after the last change that was reported, so a
restarted etcd leaves no gap. If etcd has deleted that part of its history, or the stream was silent
for `reread` seconds (an endpoint may have stopped without a word), everything is read again, and
the differences are reported.

A lease that etcd no longer knows is replaced, and the member's key is put again. While etcd is
down, leases do not expire: it may still list a member that died long ago.
"""

import asyncio
import base64
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from broker.cluster.engine.etcd import EtcdGateway, Fields
from broker.cluster.engine.view_keeper import (
    EngineError,
    EngineRefused,
    KeptView,
    MembersChanged,
    Presence,
    Swapped,
    ViewChanged,
    presence_from_json,
)
from sequencer.replica.view import BadView, View, view_from_json

log = logging.getLogger("seriatim")

LEASE_S: Final = 10  # how long a member that died stays in the list
RENEWALS: Final = 3  # in the time of a lease
REREAD_S: Final = 3.0
RETRY_S: Final = 0.5  # after an error
# A changed number alone is written at most this often: etcd keeps each until it is compacted.
LAST_S: Final = 60.0


class EtcdKeeper:
    """A `ViewKeeper` with etcd, for the event loop's thread. `close` it when no call runs."""

    def __init__(
        self,
        gateway: EtcdGateway,
        cluster: str,
        lease: int = LEASE_S,
        reread: float = REREAD_S,
    ) -> None:
        self._gateway = gateway
        self._prefix = f"/seriatim/{cluster}/"
        self._lease_s = lease
        self._reread_s = reread
        self._member = ""
        self._presence: Presence | None = None
        self._put: Presence | None = None  # the entry in etcd
        self._put_at = 0.0
        self._lease = ""
        self._announced = asyncio.Event()

    @property
    def engine_id(self) -> str:
        return self._gateway.engine_id

    @property
    def problem(self) -> str:
        return self._gateway.problem

    # The view

    async def read(self) -> KeptView:
        """Return the current view, never a stale one. Raises `BadView` if it is not a view."""
        answer = await self._gateway.call("/v3/kv/range", {"key": word(self._prefix + "view")})
        return _kept(answer)

    async def swap(self, revision: int, view: View) -> Swapped:
        """Set the view if its revision is still this one; 0: if there is none.

        Raises `FateUnknown` if this may have been done, or may still be.
        """
        key = word(self._prefix + "view")
        answer = await self._transaction(key, revision, view.to_json(), once=True)
        if answer.get("succeeded"):
            return Swapped(True, KeptView(int(answer["header"]["revision"]), view))
        return Swapped(False, _kept(answer["responses"][0]["response_range"]))

    # Processes

    async def next_run(self, above: int) -> int:
        """Return a number for a process, above this one, that is never given twice."""
        key = word(self._prefix + "runs")
        while True:
            answer = await self._gateway.call("/v3/kv/range", {"key": key})
            (kept,) = answer.get("kvs", [{"mod_revision": 0, "value": word("0")}])
            run = max(int(base64.b64decode(kept["value"])), above) + 1
            # If the answer is lost, this number may be used up. Then the next one is taken.
            answer = await self._transaction(key, int(kept["mod_revision"]), b"%d" % run)
            if answer.get("succeeded"):
                return run

    async def newest_run(self, member: str) -> tuple[int, int]:
        """Return a member's newest registered process and its revision; 0 and 0: there is none."""
        key = word(f"{self._prefix}run/{member}")
        answer = await self._gateway.call("/v3/kv/range", {"key": key})
        (kept,) = answer.get("kvs", [{"mod_revision": 0, "value": word("0")}])
        return int(base64.b64decode(kept["value"])), int(kept["mod_revision"])

    async def register_run(self, member: str, run: int, revision: int) -> bool:
        """Register a member's newest process, if none was registered since that revision."""
        key = word(f"{self._prefix}run/{member}")
        answer = await self._transaction(key, revision, b"%d" % run)
        return bool(answer.get("succeeded"))

    # The list of members

    async def members(self) -> dict[str, Presence]:
        """Return the members in the list, by id."""
        prefix = self._prefix + "member/"
        return self._present(await self._gateway.call("/v3/kv/range", all_below(prefix)))

    def announce(self, member: str, presence: Presence) -> None:
        """Set the list's entry for this member from now on."""
        self._member = member
        self._presence = presence
        self._announced.set()

    async def keep_announced(self) -> None:
        """Keep this member in the list until cancelled; then remove it."""
        try:
            while True:
                self._announced.clear()
                pause = self._lease_s / RENEWALS
                try:
                    await self._renew()
                except EngineRefused:  # the gateway has logged it
                    pass
                except EngineError:
                    pause = min(pause, RETRY_S)
                with contextlib.suppress(TimeoutError):
                    # Not wait_for: in Python 3.11 it loses a cancellation that comes at that time.
                    async with asyncio.timeout(pause):
                        await self._announced.wait()
        finally:
            await self._leave()

    async def _renew(self) -> None:
        ask = self._gateway.call
        if self._lease:
            answer = await ask("/v3/lease/keepalive", {"ID": self._lease})
            if not int(answer.get("TTL", 0)):
                self._lease = ""  # etcd does not know it, or no longer
        if not self._lease:
            answer = await ask("/v3/lease/grant", {"TTL": self._lease_s})
            self._lease = str(answer["ID"])
            self._put = None
        if self._presence is None or not self._is_due(self._presence):
            return
        presence = self._presence
        fields = {
            "key": word(f"{self._prefix}member/{self._member}"),
            "value": word(presence.to_json()),
            "lease": self._lease,
        }
        try:
            await ask("/v3/kv/put", fields)
        except EngineRefused:
            self._lease = ""  # it may have expired since
            raise
        self._put = presence
        self._put_at = asyncio.get_running_loop().time()

    def _is_due(self, presence: Presence) -> bool:
        """True if etcd should get this now. A new number alone can wait."""
        put = self._put
        if put is None or presence._replace(last=put.last) != put:
            return True
        aged = asyncio.get_running_loop().time() - self._put_at >= LAST_S
        return aged and presence != put

    async def _leave(self) -> None:
        """Revoke the lease, and with it the member's key; if etcd is away, it expires."""
        lease, self._lease, self._put = self._lease, "", None
        if lease:
            with contextlib.suppress(EngineError):
                await self._gateway.call("/v3/lease/revoke", {"ID": lease})

    # Changes

    async def watch(
        self,
        view_changed: ViewChanged,
        members_changed: MembersChanged,
        requested: Callable[[str, Fields], None] | None = None,
    ) -> None:
        """Report the view and the list as they are, and then each change, until cancelled.

        `requested` is called with an operator's request (etcd_requests.py): its key without prefix,
        and its fields.
        """
        watch = _Watch(self._prefix, view_changed, members_changed, requested or _ignore)
        while True:
            try:
                if not watch.revision:
                    answer = await self._gateway.call("/v3/kv/range", all_below(self._prefix))
                    watch.state(answer)
                create = {**all_below(self._prefix), "start_revision": watch.revision + 1}
                silent = await self._gateway.stream(
                    "/v3/watch", {"create_request": create}, self._reread_s, watch.changes
                )
                if silent:
                    watch.revision = 0  # reading it all also checks that etcd is still there
                else:
                    await asyncio.sleep(RETRY_S)
            except _Compacted:
                watch.revision = 0
            except EngineError as error:
                log.debug("Cluster: the watch ended: %s", error)
                await asyncio.sleep(RETRY_S)

    async def close(self) -> None:
        """Close all connections to etcd."""
        await self._gateway.close()

    def _present(self, answer: Fields) -> dict[str, Presence]:
        prefix = self._prefix + "member/"
        found = {}
        for kept in answer.get("kvs", ()):
            presence = presence_from_json(base64.b64decode(kept["value"]))
            if presence is not None:
                found[key_of(kept).removeprefix(prefix)] = presence
        return found

    async def _transaction(
        self, key: str, revision: int, value: bytes, once: bool = False
    ) -> Fields:
        """Set a key if its revision is this one; if not, the answer contains its present value."""
        condition = {"target": "MOD", "result": "EQUAL", "key": key, "mod_revision": revision}
        transaction = {
            "compare": [condition],
            "success": [{"request_put": {"key": key, "value": word(value)}}],
            "failure": [{"request_range": {"key": key}}],
        }
        return await self._gateway.call("/v3/kv/txn", transaction, once)


class _Compacted(Exception):
    """etcd has deleted the history that the watch was to begin with."""


class _Watch:
    """The state that one watch has reported, so that only differences are reported."""

    def __init__(
        self,
        prefix: str,
        view_changed: ViewChanged,
        members_changed: MembersChanged,
        requested: Callable[[str, Fields], None],
    ) -> None:
        self.revision = 0  # everything up to here was reported; 0: read it all
        self._prefix = prefix
        self._view_changed, self._members_changed = view_changed, members_changed
        self._requested = requested
        self._view_revision = -1
        self._members: dict[str, Presence] | None = None

    def state(self, answer: Fields) -> None:
        """Report the whole state, from an answer with all keys."""
        members: dict[str, Presence] = {}
        view: Fields = {}
        for kept in answer.get("kvs", ()):
            name = key_of(kept).removeprefix(self._prefix)
            if name == "view":
                view = kept
            elif name.startswith("member/"):
                self._note(members, name, kept)
            elif name.startswith("request/"):
                self._requested(name, kept)
        self._tell(members, view)
        self.revision = int(answer["header"]["revision"])

    def changes(self, answer: Fields) -> None:
        """Report the changes in one line of the stream."""
        if answer.get("canceled"):
            if not int(answer.get("compact_revision", 0)):
                raise EngineRefused(f"etcd ended the watch: {answer.get('cancel_reason', '')}")
            raise _Compacted
        members = dict(self._members or {})
        for event in answer.get("events", ()):
            kept = event["kv"]
            name = key_of(kept).removeprefix(self._prefix)
            deleted = event.get("type") == "DELETE"
            if name == "view":
                self._tell(members, {} if deleted else kept)
            elif name.startswith("member/"):
                self._note(members, name, {} if deleted else kept)
            elif name.startswith("request/") and not deleted:
                self._requested(name, kept)
            self.revision = int(kept["mod_revision"])
        self._tell_members(members)

    def _note(self, members: dict[str, Presence], name: str, kept: Fields) -> None:
        member = name.removeprefix("member/")
        presence = presence_from_json(base64.b64decode(kept["value"])) if kept else None
        if presence is None:
            members.pop(member, None)
        else:
            members[member] = presence

    def _tell(self, members: dict[str, Presence], kept: Fields) -> None:
        """Report the list first: a view names members whose addresses are in it."""
        self._tell_members(members)
        revision = int(kept.get("mod_revision", 0))
        if revision == self._view_revision:
            return
        self._view_revision = revision
        try:
            view = view_from_json(base64.b64decode(kept["value"])) if kept else None
        except BadView as error:
            log.error("Cluster: %sview in etcd: %s", self._prefix, error)
            return
        self._view_changed(KeptView(revision, view))

    def _tell_members(self, members: dict[str, Presence]) -> None:
        if members != self._members:
            self._members = members
            self._members_changed(dict(members))


def _kept(answer: Fields) -> KeptView:
    """Return the view in a range's answer. Raises `BadView`."""
    for kept in answer.get("kvs", ()):
        view = view_from_json(base64.b64decode(kept["value"]))
        return KeptView(int(kept["mod_revision"]), view)
    return KeptView(0, None)


def _ignore(name: str, kept: Fields) -> None:
    """Ignore a request: a command's keeper serves none."""


def key_of(kept: Fields) -> str:
    """Decode a key that etcd returned."""
    return base64.b64decode(kept["key"]).decode("utf-8", "replace")


def value_of(kept: Fields) -> bytes:
    """Decode the value of a key that etcd returned."""
    return base64.b64decode(kept["value"])


def word(data: str | bytes) -> str:
    """Encode bytes as the gateway's JSON needs them."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def all_below(prefix: str) -> Fields:
    """Return the range of all keys that begin with `prefix`, which ends in a slash."""
    assert prefix.endswith("/"), "the end of the range is the next character"
    return {"key": word(prefix), "range_end": word(prefix[:-1] + "0")}
