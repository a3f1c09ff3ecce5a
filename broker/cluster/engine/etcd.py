"""A client of etcd's HTTP/JSON gateway (/v3/...): several endpoints, time limits, TLS, passwords.

The only module that imports aiohttp, which is an optional dependency (`seriatim[cluster]`).

One endpoint is used at a time, a random one first, and the next one after an error. The first call
to an endpoint asks for its cluster's id: an endpoint of another etcd is refused. Each call opens
its own connection, so a connection that broke unnoticed cannot leave the fate of a swap unknown.

    what happens                                `call` goes to the next endpoint
    it could not be sent                        yes
    no answer in time, or a 5xx                 yes; not for a swap: `FateUnknown`
    etcd refuses it (4xx)                       no: `EngineRefused`
    the endpoint belongs to another etcd        yes; `WrongEngine` if no endpoint is ours
"""

import json
import logging
import os
import random
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import aiohttp

from broker.cluster.engine.view_keeper import (
    EngineDown,
    EngineError,
    EngineRefused,
    FateUnknown,
    WrongEngine,
)

log = logging.getLogger("seriatim")

Fields = dict[str, Any]
UNAUTHENTICATED: Final = 401
LINE_BYTES_MAX: Final = 16 << 20  # a watch reports at most a thousand changes in one line


class EtcdAccess(NamedTuple):
    """The access to etcd. The files are read whenever they are needed, so they may change."""

    endpoints: tuple[str, ...]  # http://HOST:PORT or https://HOST:PORT
    user: str = ""
    password_file: str = ""
    ca: str = ""  # files of PEM
    certificate: str = ""
    key: str = ""
    timeout: float = 1.0  # seconds, for a call at one endpoint


class _NotSent(EngineError):
    """The endpoint could not be connected to."""


class _NotAnswered(EngineError):
    """The endpoint gave no valid answer; it may or may not have carried out the call."""


class _NotAuthenticated(EngineError):
    """The token has expired. Nothing was done."""


class EtcdGateway:
    """The calls to one etcd. One gateway per process or command, for the event loop's thread."""

    def __init__(self, access: EtcdAccess, engine_id: str = "") -> None:
        assert access.endpoints, "the settings have checked that"
        self.engine_id = engine_id  # 16 hex digits, as `etcdctl` shows it; empty: not known yet
        self.problem = ""
        self.versions: dict[str, str] = {}  # of etcd, by endpoint: those that were checked
        self._access = access
        self._at = random.randrange(len(access.endpoints))
        self._token = ""
        self._session: aiohttp.ClientSession | None = None
        self._context: Any = None
        self._stamps: list[tuple[int, ...]] = []

    async def call(self, path: str, body: Fields, once: bool = False) -> Fields:
        """Return the first answer of any endpoint. `once`: a swap. Raises `EngineError`."""
        try:
            answer = await self._ask(path, body, once)
        except EngineError as error:
            if not self.problem:
                log.warning("Cluster: %s", error)
            self.problem = str(error)
            raise
        if self.problem:
            log.info("Cluster: etcd answers again")
        self.problem = ""
        return answer

    async def stream(
        self, path: str, body: Fields, silence: float, take: Callable[[Fields], None]
    ) -> bool:
        """Pass on each line of an endless answer. False: it ended; True: silent for `silence` s.

        Raises `EngineError` if it breaks. Unless it ended, the next call uses the next endpoint.
        """
        endpoint = self._endpoint
        seconds = self._access.timeout
        limits = aiohttp.ClientTimeout(connect=seconds / 2, sock_read=silence)
        try:
            headers = await self._headers(endpoint)
            async with self._open().post(
                endpoint + path, json=body, headers=headers, timeout=limits, ssl=self._trust()
            ) as answer:
                if answer.status != 200:
                    self._token = ""
                    raise EngineDown(f"{endpoint}: {_reason(await answer.read())}")
                rest = b""
                async for data in answer.content.iter_any():
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        take(_fields(endpoint, line))
                    if len(rest) > LINE_BYTES_MAX:
                        raise EngineDown(f"{endpoint}: a line of its answer does not end")
        except TimeoutError:
            self._turn_from(endpoint)
            return True
        except (aiohttp.ClientError, OSError) as error:
            self._turn_from(endpoint)
            raise EngineDown(_why(endpoint, error)) from error
        except EngineError:
            self._turn_from(endpoint)
            raise
        return False

    async def close(self) -> None:
        """Close what is open. The gateway can be used again."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def _endpoint(self) -> str:
        return self._access.endpoints[self._at]

    def _turn_from(self, endpoint: str) -> None:
        """Use the next endpoint. This one is checked again before it is used again."""
        self.versions.pop(endpoint, None)
        if self._endpoint == endpoint:
            self._at = (self._at + 1) % len(self._access.endpoints)

    async def _ask(self, path: str, body: Fields, once: bool) -> Fields:
        failures: list[EngineError] = []
        for _ in self._access.endpoints:
            endpoint = self._endpoint
            sent = False
            try:
                headers = await self._headers(endpoint)
                sent = True
                try:
                    answer = await self._post(endpoint, path, body, headers)
                except _NotAuthenticated:
                    self._token = ""
                    headers = await self._headers(endpoint)
                    answer = await self._post(endpoint, path, body, headers)
                self._check_id(endpoint, answer)
                return answer
            except (_NotSent, _NotAnswered, WrongEngine) as error:
                self._turn_from(endpoint)
                if once and sent and isinstance(error, _NotAnswered):
                    raise FateUnknown(f"whether etcd has done it is unknown: {error}") from error
                failures.append(error)
            except _NotAuthenticated as error:
                raise EngineRefused(str(error)) from error
        reasons = "; ".join(map(str, failures))
        if any(isinstance(error, WrongEngine) for error in failures):
            raise WrongEngine(reasons)
        raise EngineDown(f"etcd does not answer: {reasons}")

    async def _headers(self, endpoint: str) -> dict[str, str]:
        """Return the headers for a call, after a check of the endpoint before its first call."""
        if endpoint not in self.versions:
            answer = await self._post(endpoint, "/v3/maintenance/status", {}, {})
            self._check_id(endpoint, answer)
            self.versions[endpoint] = str(answer.get("version", ""))
        if self._access.user and not self._token:
            name, password = self._access.user, _content(self._access.password_file)
            words = {"name": name, "password": password}
            answer = await self._post(endpoint, "/v3/auth/authenticate", words, {})
            self._token = str(answer.get("token", ""))
        return {"Authorization": self._token} if self._token else {}

    def _check_id(self, endpoint: str, answer: Fields) -> None:
        try:
            found = f"{int(answer['header']['cluster_id']):016x}"
        except (KeyError, TypeError, ValueError):
            raise _NotAnswered(f"{endpoint}: its answer is not etcd's") from None
        self.engine_id = self.engine_id or found
        if found != self.engine_id:
            raise WrongEngine(
                f"{endpoint} belongs to the etcd cluster {found}, and the view is kept in"
                f" {self.engine_id}; correct cluster.etcd"
            )

    async def _post(
        self, endpoint: str, path: str, body: Fields, headers: dict[str, str]
    ) -> Fields:
        seconds = self._access.timeout
        limits = aiohttp.ClientTimeout(total=seconds, connect=seconds / 2)
        try:
            async with self._open().post(
                endpoint + path, json=body, headers=headers, timeout=limits, ssl=self._trust()
            ) as answer:
                status, data = answer.status, await answer.read()
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            # Only the time limit for connecting raises ServerTimeoutError here.
            raise _NotSent(_why(endpoint, error)) from error
        except TimeoutError as error:
            raise _NotAnswered(f"{endpoint}: no answer in {seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _NotAnswered(_why(endpoint, error)) from error
        if status == 200:
            return _fields(endpoint, data)
        reason = f"{endpoint}: {_reason(data)}"
        if status == UNAUTHENTICATED:
            raise _NotAuthenticated(reason)
        if status < 500:
            raise EngineRefused(reason)
        raise _NotAnswered(reason)

    def _open(self) -> aiohttp.ClientSession:
        """Return the session, which needs a running loop."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                force_close=True,
                # Later Pythons close such a socket themselves if the peer is slow to close.
                enable_cleanup_closed=sys.version_info < (3, 12, 8),
            )
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    def _trust(self) -> Any:
        """Return a call's TLS context (True: plain), made again when its files have changed."""
        access = self._access
        if not self._endpoint.startswith("https:"):
            return True
        stamps = [_stamp(path) for path in (access.ca, access.certificate, access.key)]
        if self._context is None or stamps != self._stamps:
            import ssl  # four megabytes, which http does not need

            try:
                context = ssl.create_default_context(cafile=access.ca or None)
                if access.certificate:
                    context.load_cert_chain(access.certificate, access.key or None)
            except OSError as error:
                why = "cluster.etcd_ca, etcd_cert and etcd_key must be files of PEM, with their key"
                raise EngineRefused(f"{why}: {error}") from error
            self._context, self._stamps = context, stamps
        return self._context


def _why(endpoint: str, error: Exception) -> str:
    """Explain why an endpoint has not answered, in an operator's words, not aiohttp's."""
    cause = getattr(error, "os_error", error)  # aiohttp's own error hides the system's
    reason = getattr(cause, "reason", None)  # OpenSSL's
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        wrong = error.certificate_error
        why = f"its certificate is refused: {getattr(wrong, 'verify_message', '') or wrong}"
    elif reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        why = "it does not speak TLS; write http://, or correct the port"
    elif isinstance(reason, str):
        why = f"TLS failed: {reason.lower().replace('_', ' ')}"
    elif isinstance(error, aiohttp.ServerTimeoutError):
        why = "it takes too long to connect"
    elif isinstance(error, aiohttp.ServerDisconnectedError):
        why = "it closed the connection without an answer"
    elif isinstance(error, aiohttp.ClientResponseError):
        why = "its answer is not HTTP; correct the port"
    elif isinstance(error, aiohttp.ClientPayloadError):
        why = "its answer broke off"
    elif isinstance(cause, socket.gaierror):
        why = f"its name cannot be resolved ({str(cause.strerror).lower()})"
    elif isinstance(cause, OSError) and cause.errno:
        why = os.strerror(cause.errno).lower()
    else:
        why = str(error)
    return f"{endpoint}: {why}"


def _stamp(path: str) -> tuple[int, ...]:
    """Return a stamp that changes when the file is written again."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _content(path: str) -> str:
    """Read a file, without the line end."""
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip("\r\n")
    except OSError as error:
        raise EngineRefused(f"cluster.etcd_password_file: {path}: {error.strerror}") from error


def _fields(endpoint: str, data: bytes) -> Fields:
    """Parse an answer, or one line of a stream, whose content is in "result"."""
    try:
        fields = json.loads(data)
        if not isinstance(fields, dict):
            raise ValueError
    except ValueError:
        raise _NotAnswered(f"{endpoint}: its answer is not etcd's") from None
    if "error" in fields:
        raise _NotAnswered(f"{endpoint}: {_reason(data)}")
    result = fields.get("result", fields)
    return result if isinstance(result, dict) else fields


def _reason(data: bytes) -> str:
    """Return the message of etcd's error."""
    try:
        fields = json.loads(data)
        error = fields["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, TypeError, KeyError):
        return f"an answer that is not etcd's: {data[:100]!r}"
