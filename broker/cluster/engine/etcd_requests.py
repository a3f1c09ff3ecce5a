"""An operator's requests to the members of a cluster, and their answers, by way of etcd.

    /seriatim/NAME/request/ID          {"command":"hand over","to":"3f0c..."}
    /seriatim/NAME/answer/ID/MEMBER    {"done":true,"why":"",...}

Both are under a lease of the asking command, so nothing remains of them. Members see requests in
the watch that they run anyway. Write access to these keys is write access to the view, too: there
is no second port to protect, and no second secret.
"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from broker.cluster.engine.etcd import EtcdGateway, Fields
from broker.cluster.engine.etcd_keeper import all_below, key_of, value_of, word
from broker.cluster.engine.view_keeper import EngineError

LEASE_S: Final = 60  # an answer comes sooner, or not at all
POLL_S: Final = 0.05

Answers = dict[str, dict[str, Any]]  # by the member's id


class OperatorRequest(NamedTuple):
    """An operator's command to the members."""

    id: str
    command: str
    to: str  # the member that it is about; empty: none
    lease: str  # of the command: answers end with it


def request_from(name: str, kept: Fields) -> OperatorRequest | None:
    """Read the key `request/ID`; None if this version does not know what it says."""
    try:
        fields = json.loads(value_of(kept))
        command, to = str(fields["command"]), str(fields.get("to", ""))
        return OperatorRequest(name.removeprefix("request/"), command, to, str(kept["lease"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


class EtcdRequests:
    """Requests through etcd, from the command's and a member's side, for the loop's thread."""

    def __init__(self, gateway: EtcdGateway, cluster: str) -> None:
        self._gateway = gateway
        self._prefix = f"/seriatim/{cluster}/"

    # The command's side

    async def post(
        self,
        command: str,
        to: str,
        is_enough: Callable[[Answers], bool],
        seconds: float,
    ) -> Answers:
        """Ask, and return the answers as soon as they are enough or the time is over."""
        granted = await self._gateway.call("/v3/lease/grant", {"TTL": LEASE_S})
        lease, name = str(granted["ID"]), os.urandom(8).hex()
        try:
            await self._put(f"request/{name}", {"command": command, "to": to}, lease)
            end = asyncio.get_running_loop().time() + seconds
            while True:
                answers = await self._answers(name)
                if is_enough(answers) or asyncio.get_running_loop().time() >= end:
                    return answers
                await asyncio.sleep(POLL_S)
        finally:
            with suppress(EngineError):
                await self._gateway.call("/v3/lease/revoke", {"ID": lease})

    async def _answers(self, name: str) -> Answers:
        prefix = f"{self._prefix}answer/{name}/"
        answer = await self._gateway.call("/v3/kv/range", all_below(prefix))
        return {
            key_of(kept).removeprefix(prefix): json.loads(value_of(kept))
            for kept in answer.get("kvs", ())
        }

    # A member's side

    async def answer(
        self, request: OperatorRequest, member: str, fields: Mapping[str, Any]
    ) -> None:
        """Answer a request; a second answer replaces the first one. Raises `EngineError`."""
        await self._put(f"answer/{request.id}/{member}", fields, request.lease)

    async def _put(self, name: str, fields: Mapping[str, Any], lease: str) -> None:
        value = word(json.dumps(dict(fields)))
        entry = {"key": word(self._prefix + name), "value": value, "lease": lease}
        await self._gateway.call("/v3/kv/put", entry)
