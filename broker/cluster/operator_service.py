"""Serves an operator's requests: hand over, remove a member, report, stop with all others.

    seriatim cluster handover --etcd_requests.py--> OperatorService --> the core
                              <--------- answer --------'

Only the coordinator hands over and removes. It answers at once that it has taken the request; the
others answer that they do not coordinate. So the command soon knows whether any member serves it.
Every member reports, gives its status, and stops. A request is served once, however often the watch
reports it.

`stop` ends all members with the same log, and leaves the view as it is. So any of them may start
first afterwards. Each member closes its clients, and then announces that it is "stopped". When all
have, the coordinator gives no more numbers; it waits until the others have everything, and ends.
They end when it is gone.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from broker.cluster.cluster_health import fault
from broker.cluster.driver import Driver
from broker.cluster.engine.etcd_requests import EtcdRequests, OperatorRequest
from broker.cluster.engine.view_keeper import EngineError, Presence
from sequencer.replica.member import Member

log = logging.getLogger("seriatim")

POLL_S: Final = 0.005  # a view may come from several sources: there is no event to await
HAND_OVER_S: Final = 5.0
REMOVE_S: Final = 5.0
SETTLE_S: Final = 10.0  # how long a member waits for the others when all stop
STOPPED: Final = "stopped"  # a state in the list of members
OF_COORDINATOR: Final = ("hand over", "remove")
GONE: Final = "another member coordinates by now; ask again"

Facts = dict[str, Any]


class OperatorService:
    """The service of one member for operators' requests, for its one thread."""

    def __init__(self, driver: Driver, answers: EtcdRequests, stop: Callable[[], None]) -> None:
        """`stop` makes the process stop."""
        self.stopping: OperatorRequest | None = None  # all members are to stop
        self.state = ""  # shown in the list instead of the role
        self._driver = driver
        self._answers = answers
        self._stop = stop
        self._seen: set[str] = set()
        self._jobs: set[asyncio.Task[None]] = set()
        self._commands: dict[str, Callable[[OperatorRequest], Coroutine[Any, Any, Facts | None]]]
        self._commands = {
            "hand over": self._hand_over,
            "remove": self._remove,
            "report": self._report,
            "status": self._status,
            "stop": self._stop_all,
        }

    @property
    def _member(self) -> Member:
        return self._driver.member

    def asked(self, request: OperatorRequest) -> None:
        """Serve a request, unless that is done or under way."""
        if request.id in self._seen or request.command not in self._commands:
            return
        self._seen.add(request.id)
        job = self._driver.loop.create_task(self._serve(request))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def stop(self) -> None:
        """Stop serving requests."""
        for job in list(self._jobs):
            job.cancel()
            with suppress(asyncio.CancelledError):
                await job

    async def _serve(self, request: OperatorRequest) -> None:
        if request.command in OF_COORDINATOR:
            coordinates = self._member.coordinator is not None
            await self._answer(request, {"taken": coordinates})
            if not coordinates:
                return
        facts = await self._commands[request.command](request)
        if facts is not None:
            asked = f"{request.command} {request.to}".rstrip()
            if request.command == "status":  # asked often, and nothing changes
                pass
            elif facts.get("why"):
                log.warning("Cluster: an operator asked: %s; not done: %s", asked, facts["why"])
            else:
                log.info("Cluster: an operator asked: %s", asked)
            await self._answer(request, facts)

    async def _answer(self, request: OperatorRequest, facts: Facts) -> None:
        try:
            await self._answers.answer(request, self._member.id, facts)
        except EngineError as error:
            log.warning("Cluster: %s could not be answered: %s", request.command, error)

    def _ask(self, call: Callable[..., str], *arguments: object) -> str:
        """Ask the core for something; return why it cannot be done."""
        said: list[str] = []
        self._driver.event(lambda: said.append(call(*arguments)))
        return said[0] if said else "this member stops"

    async def _wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition; True if it came true in time."""
        end = self._driver.loop.time() + seconds
        while not is_done():
            if self._driver.loop.time() >= end or self._driver.stopping:
                return False
            await asyncio.sleep(POLL_S)
        return True

    # Commands

    async def _hand_over(self, request: OperatorRequest) -> Facts | None:
        member, role = self._member, self._member.coordinator
        if role is None:
            return {"done": False, "why": GONE}
        began = self._driver.loop.time()
        call = role.hand_over_to_any if not request.to else role.hand_over
        why = self._ask(call, *([request.to] if request.to else []))
        if why:
            return {"done": False, "why": why}
        to = role.handing_to
        await self._wait(lambda: member.coordinator is not role or not role.handing_to, HAND_OVER_S)
        if member.coordinator is role:
            why = f"{to} did not have everything in time, or etcd did not answer; this one goes on"
            return {"done": False, "why": why}
        await self._wait(
            lambda: member.follower.is_ready or member.coordinator is not None, HAND_OVER_S
        )
        stood = self._driver.loop.time() - began
        return {"done": True, "why": "", "to": to, "stood": stood}

    async def _remove(self, request: OperatorRequest) -> Facts | None:
        member, role = self._member, self._member.coordinator
        if role is None or member.view is None:
            return {"done": False, "why": GONE}
        gone, view = request.to, member.view
        if gone == member.id:
            return {"done": False, "why": "it coordinates: hand over first"}
        if gone not in view.members:
            return {"done": False, "why": f"{gone} is not in sync: there is nothing to remove"}
        if len(view.members) <= view.min_in_sync:
            count = view.min_in_sync
            why = f"{count} must stay in sync; start another member, which takes its place"
            return {"done": False, "why": why}
        role.in_sync.dismissed.add(gone)
        was_connected = role.link_of(gone) is not None
        try:
            done = await self._wait(lambda: not self._is_in_view(gone), REMOVE_S)
        finally:
            role.in_sync.dismissed.discard(gone)
        if not done:
            return {"done": False, "why": "etcd did not answer in time; ask again"}
        return {"done": True, "why": "", "connected": was_connected}

    def _is_in_view(self, name: str) -> bool:
        view = self._member.view
        return view is not None and name in view.members

    async def _report(self, request: OperatorRequest) -> Facts | None:
        member = self._member
        last, view = member.log.last, member.view
        member.is_counted = True
        return {
            "last": last,
            "log_epoch": member.log.epoch_of(last) if last else 0,
            "journal": member.log.journal,
            "epoch": member.memory.epoch,
            "revision": member.revision,
            "run": member.run,
            "role": member.role,
            "view": None if view is None else view.to_json().decode(),
        }

    async def _status(self, request: OperatorRequest) -> Facts | None:
        """Return this member's status; the coordinator adds how far each of the others is."""
        member, role = self._member, self._member.coordinator
        levels = {}
        if role is not None:
            known = {*role.in_sync.view.members, *(one.member for one in role.links.values())}
            levels = {one: role.level(one)[0] for one in known}
        return {
            "epoch": member.memory.epoch,
            "role": member.role,
            "last": member.log.last,
            "fault": fault(self._driver),
            "levels": levels,
        }

    async def _stop_all(self, request: OperatorRequest) -> Facts | None:
        self.stopping = request
        log.info("Cluster: all members are asked to stop")
        self._stop()
        return {"done": False}

    # The end of all

    async def settle(self, present: Callable[[], dict[str, Presence]]) -> None:
        """End with the same log as the others, after the clients are gone.

        The steps are in the docstring of this module.
        """
        member, request = self._member, self.stopping
        assert request is not None, "all members stop"
        self.state = STOPPED
        if member.coordinator is None:
            member.is_leaving = True  # so that it does not take over
            coordinator = member.view.coordinator if member.view is not None else ""
            await self._wait(lambda: coordinator not in present(), SETTLE_S)
        else:
            await self._settle_others(present)
        last = member.log.last
        await self._answer(request, {"done": True, "last": last})

    async def _settle_others(self, present: Callable[[], dict[str, Presence]]) -> None:
        member, role = self._member, self._member.coordinator
        assert role is not None, "it coordinates"
        assert member.view is not None, "so it has one"
        others = [one for one in member.view.members if one != member.id]

        def have_stopped() -> bool:
            found = present()
            return all(found[one].state == STOPPED for one in others if one in found)

        def have_everything() -> bool:
            end = member.log.last, member.notes.last
            connected = [one for one in others if role.link_of(one) is not None]
            return all(role.level(one) == end for one in connected)

        await self._wait(have_stopped, SETTLE_S)
        self._driver.event(role.stop_taking)
        if await self._wait(lambda: have_everything() or member.coordinator is not role, SETTLE_S):
            # The next pulse announces to the others that all of it is committed.
            await asyncio.sleep(2 * member.settings.pulse / 1000)
        else:
            log.warning("Cluster: stopped before all members had everything")
