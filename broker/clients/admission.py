"""Lets clients in: from the connection's start until the user of each client is known.

begin     a new session: a stranger, unless authentication is off
admit     a CONNECT: find its user; its further input waits for the result
stranger  another operation came first: refused, unless there is a `no_auth_user`
renew     the settings have changed: check again the user of each client
"""

import base64
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.clients.heartbeat import Heartbeat
from broker.clients.session import Session
from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.guard import OpenRequests
from broker.dataplane.user import User
from broker.settings.settings import Settings
from broker.wires.connect import SECRETS
from parser import errors

if TYPE_CHECKING:
    from broker.auth.authenticator import Answer, Authenticator, Claim

CREDENTIALS: Final = frozenset(("user", *SECRETS))
NONCE_BYTES: Final = 11  # as in nats-server
CLAIMED: Final = ("user", "pass", "auth_token", "nkey", "sig")
CROWD: Final = ": not checked in time, there are too many others"
EVERYTHING: Final = 1 << 20  # more work than one turn may cause: the rest must wait


class LateStranger:
    """The end of a client that has not authenticated in time; a heartbeat calls it."""

    __slots__ = ("_admission", "_session", "cid")

    def __init__(self, admission: "Admission", session: Session) -> None:
        self._admission = admission
        self._session = session
        self.cid = session.cid

    def beat(self, _: float) -> float:
        self._admission.late(self._session)
        return 0.0


class Question:
    """A question to the authenticator about one client; the answer may come at once, or later."""

    __slots__ = (
        "_admission",
        "claim",
        "is_answered",
        "is_waited_for",
        "session",
        "welcome",
        "when",
    )

    def __init__(
        self,
        admission: "Admission",
        session: Session,
        claim: "Claim",
        when: str,
        welcome: Callable[[], None],
    ) -> None:
        self._admission = admission
        self.session = session
        self.claim = claim
        self.when = when  # after a reload, or "": for the log
        self.welcome = welcome
        self.is_answered = False
        self.is_waited_for = False  # the client is not read until the answer comes

    def on_answer(self, answer: "Answer") -> None:
        self.is_answered = True
        self._admission.answered(self, answer)


class Admission:
    """The authentication of all sessions. One per broker, for its one thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._plane = core.plane
        self._loop = core.loop
        self._claims = core.claims
        self._timeouts = Heartbeat(core.loop)
        self._asking: set[Session] = set()  # their credentials are being checked
        self.authenticator: Authenticator | None = None  # None: there are no users to check
        self._take(core.settings)

    def _take(self, settings: Settings) -> None:
        chosen = settings.authorization
        if not chosen.is_required:
            self._claims.learn(())
            self.authenticator = None
            return
        from broker.auth.authenticator import Authenticator, Claim  # two megabytes of OpenSSL
        from broker.auth.users import Users

        self._claim_type = Claim
        before = None if self.authenticator is None else self.authenticator.users
        users = Users(chosen, before)
        self._claims.learn(users.applications, users.named)
        found = users, chosen.max_attempts, chosen.timeout
        if self.authenticator is None:
            self.authenticator = Authenticator(*found, self._loop)
        else:
            self.authenticator.renew(*found)

    def stop(self) -> None:
        """Stop authenticating clients."""
        self._timeouts.stop()
        if self.authenticator is not None:
            self.authenticator.stop()

    @property
    def is_asking(self) -> bool:
        """True if clients must authenticate."""
        authenticator = self.authenticator
        return authenticator is not None and authenticator.users.nobody is None

    @property
    def info(self) -> dict[str, object]:
        """The fields of INFO about authentication."""
        return {"auth_required": True} if self.is_asking else {}

    @property
    def failures(self) -> int:
        """The number of failed attempts to authenticate so far."""
        return 0 if self.authenticator is None else self.authenticator.failures

    @property
    def unknown(self) -> int:
        """The number of clients that must still authenticate."""
        return len(self._timeouts)

    def start_timeout(self, session: Session) -> None:
        """Start the timeout of a new session, if it must authenticate."""
        authenticator = self.authenticator
        if authenticator is None:
            return
        session.connection.stranger = True
        if authenticator.users.keys:
            made = base64.urlsafe_b64encode(os.urandom(NONCE_BYTES))
            session.nonce = made.rstrip(b"=").decode()
        timeout = self._core.settings.authorization.timeout + session.opening_timeout
        self._expire(session, timeout)

    def _expire(self, session: Session, seconds: float) -> None:
        """Refuse a client that has not authenticated in this time."""
        self._timeouts.schedule(LateStranger(self, session), self._loop.time() + seconds)

    def end(self, session: Session) -> None:
        """Stop the timeout of a session that has ended, or whose user is known."""
        self._asking.discard(session)
        self._timeouts.remove(session)

    def admit(
        self, connection: Connection, options: Mapping[str, Any], welcome: Callable[[], None]
    ) -> None:
        """Find the user of a client; then call `welcome`, or close the connection."""
        authenticator = self.authenticator
        session = self._session(connection)
        if _claims(options):
            session.claimed = {name: options[name] for name in CLAIMED if name in options}
        if authenticator is None or (not connection.stranger and not _claims(options)):
            welcome()
            return

        def hold() -> None:
            session.wait()
            self._plane.charge_work(EVERYTHING)

        by_certificate = self._core.settings.tls.verify_and_map
        claim = self._claim(session, options, by_certificate)
        self._ask(authenticator, session, claim, welcome, hold)

    def _ask(
        self,
        authenticator: "Authenticator",
        session: Session,
        claim: "Claim",
        welcome: Callable[[], None],
        hold: Callable[[], None],
        when: str = "",
    ) -> None:
        """Find the user of a client; then call `welcome`, or close the connection.

        `hold` keeps its input waiting until the answer comes. `when` is for the log.
        """
        question = Question(self, session, claim, when, welcome)
        authenticator.identify(claim, question.on_answer)
        if not question.is_answered:
            question.is_waited_for = True
            self._asking.add(session)
            hold()

    def answered(self, question: "Question", answer: "Answer") -> None:
        """Let a client in, or close it. `question` is the one that the authenticator answers."""
        session, connection = question.session, question.session.connection
        self._asking.discard(session)
        if connection.closed:
            return
        if self.authenticator is None:
            self._enter(session, None)
            question.welcome()
        elif answer is None:
            who = question.claim.label + question.when
            self._refuse(session, errors.AuthorizationViolation, who)
        elif isinstance(answer, User):
            self._enter(session, answer)
            question.welcome()
        else:
            self._refuse(session, errors.TooManyLogins, question.claim.label + CROWD)
        if question.is_waited_for:
            self._plane.release(None)
            if connection.closed:
                session.depart()
            else:
                session.proceed()

    def stranger(self, connection: Connection) -> bool:
        """Admit a client that begins without CONNECT, as `no_auth_user`; False if it is refused."""
        session = self._session(connection)
        nobody = None if self.authenticator is None else self.authenticator.users.nobody
        if nobody is not None:
            self._enter(session, nobody)
            return True
        self._refuse(session, errors.AuthorizationViolation, "no CONNECT")
        return False

    def port_user(self, settings: Settings) -> User | None:
        """Return the user of all clients of cquencer's port, if there are users."""
        if self.authenticator is None:
            return None
        name = settings.sequencer.user or settings.authorization.no_auth_user
        return self.authenticator.users.find(name)

    def may_ask_port(self, settings: Settings) -> bool:
        """True if the user of cquencer's clients may publish to their subject."""
        user = self.port_user(settings)
        if user is None:
            return self.authenticator is None
        return user.guard is None or user.guard.may_publish_to(settings.sequencer.subject.encode())

    def renew(
        self,
        settings: Settings,
        sessions: Iterable[Session],
        recheck: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        """Apply new settings, and close clients that are refused under them.

        A client that has proved its user need not do so again, unless the credentials have
        changed. Otherwise those of its last CONNECT are checked, as in nats-server: a broker
        without users has not looked at them. `recheck` is called for each client whose rights
        have changed.
        """
        before = self.authenticator
        self._take(settings)
        if before is not None and self.authenticator is None:
            before.let_go()
        by_certificate = settings.tls.verify_and_map
        for session in list(sessions):
            if not session.connection.closed:
                self._renew(session, by_certificate, recheck)

    def _renew(
        self, session: Session, by_certificate: bool, recheck: Callable[[Connection], None]
    ) -> None:
        authenticator, connection = self.authenticator, session.connection
        guard = connection.guard

        def welcome() -> None:
            if connection.guard is not guard:
                recheck(connection)

        if authenticator is None:
            self._enter(session, None)
            welcome()
            return
        if connection.stranger:
            return  # its credentials are being checked, or have not come yet
        user = authenticator.users.still(session.user)
        claim = self._claim(session, session.claimed, by_certificate)
        if user is not None and (user.proof or not claim.says_something):
            self._enter(session, user)
            welcome()
            return
        connection.stranger = True
        self._expire(session, authenticator.timeout)
        self._ask(authenticator, session, claim, welcome, session.hold_back, ", after a reload")
        if connection.closed:
            self._plane.release(None)
            session.depart()

    def named(self, name: str) -> User | None:
        """Return the user of this name (empty: the token's), or None if it is not known."""
        return None if self.authenticator is None else self.authenticator.users.named(name)

    def _claim(self, session: Session, options: Mapping[str, Any], by_certificate: bool) -> "Claim":
        names = session.certificate_names if by_certificate else None
        return self._claim_type(
            session.ip,
            session.nonce.encode(),
            lambda: session.connection.closed,
            options.get("user", ""),
            options.get("pass", ""),
            options.get("auth_token", ""),
            options.get("nkey", ""),
            options.get("sig", ""),
            names,
        )

    def _enter(self, session: Session, user: User | None) -> None:
        """Attach the authenticated user to the session."""
        self.end(session)
        connection = session.connection
        session.user = user
        connection.stranger = False
        session.measure()
        guard = None if user is None else user.guard
        if guard is connection.guard:
            return
        connection.guard = guard
        connection.requests = None
        if guard is not None and guard.responses:
            connection.requests = OpenRequests(guard.responses, guard.response_ns)

    def _refuse(self, session: Session, error: type[errors.Fatal], who: str) -> None:
        """Close a session with an error, after its earlier output is sent."""
        self.end(session)
        self._plane.send_control(session.connection, error.reply)
        session.connection.closed = True
        session.finish(f"Authentication Failure: {who}", error.reason)

    def late(self, session: Session) -> None:
        """Refuse a client that has not authenticated in time."""
        if session.connection.closed:
            return
        if session in self._asking:
            self._refuse(session, errors.TooManyLogins, "timeout" + CROWD)
        else:
            self._refuse(session, errors.AuthenticationTimeout, "timeout")
        self._plane.release(None)
        session.depart()

    def _session(self, connection: Connection) -> Session:
        session = connection.session
        assert isinstance(session, Session), "clients have one; others are not asked"
        return session


def _claims(options: Mapping[str, Any]) -> bool:
    """True if the options of a CONNECT contain a user or a credential."""
    return not CREDENTIALS.isdisjoint(options) and any(map(options.get, CREDENTIALS))
