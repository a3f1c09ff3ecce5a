"""TLS between a client's socket and the protocol, in memory: OpenSSL never sees the socket.

Ciphertext is read into one buffer that all clients share, and decrypted into the protocol's buffer.
So an idle client holds only its keys, and at most the beginning of a record.
"""

# Theory of operation
#
# OpenSSL is given two memory BIOs instead of the socket:
#
#                  readv              write                 read
#     socket  ----------> scratch ----------> _incoming  ----------> the protocol's buffer
#                         (shared)            (BIO)        decrypts
#     socket  <----------------------------- _outgoing  <----------- the outbox's buffers
#               the transport          read   (BIO)        write, encrypts
#
# With the socket in its hands, OpenSSL would read and write when it likes. Here each system call is
# ours: one read in a turn, of as much as the turn allows, and the output goes the way of all
# output.
#
# The room for plain text decides how much is decrypted, and that may be less than what was read
# from the socket. So after `receive` there are three places where input may lie, and only the first
# one wakes the epoll:
#
#     in the socket                the epoll reports it
#     in _incoming                 ciphertext that was read and not decrypted yet     `more`
#     inside OpenSSL (pending)     the rest of a record that was decrypted whole      `more`
#
# With `more`, the gatherer calls `receive` again in a later turn (`read_on`), and `receive` then
# leaves the socket alone. Otherwise a client that always sends would make _incoming grow without
# bound; this way it holds one read at most, and the beginning of a record.
#
# The scratch buffer is shared by all clients, so nothing may stay in it: what was not decrypted is
# put into _incoming before `receive` returns.
#
# `room` may be only a few bytes, as at the end of a long message. The ciphertext of one record is
# read all the same, as a record can only be decrypted whole: a few bytes at a time, it would take a
# great many turns.
#
# The end has two forms: the peer says so (close_notify: SSLZeroReturnError, or a read of 0 bytes),
# or the socket just ends, which is a return of 0 without TLS. The same read may have brought plain
# text before a close_notify. It is delivered first: `_ended` is kept, `more` asks for one more
# call, and that one returns 0.

import os
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from broker.wires.disconnect_log import TLS_FAILURE
from broker.wires.distinguished_name import Name
from broker.wires.wire import HandshakeFault, WireFault

if TYPE_CHECKING:
    from broker.wires.tls_contexts import ClientFacingContext

DER: Final = 2  # ENCODING_DER of Python's module _ssl
RECORD: Final = 16384  # bytes: the most that one record of TLS holds
SUITES: Final = {  # OpenSSL's names of TLS 1.2, as Go and so nats-server write them
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}
# OpenSSL's reasons, in plain words for the log.
REASONS: Final = {
    "WRONG_VERSION_NUMBER": "what it sent is not TLS",
    "HTTP_REQUEST": "what it sent is HTTP, not TLS",
    "HTTPS_PROXY_REQUEST": "what it sent is not TLS",  # it begins like CONNECT
    "UNSUPPORTED_PROTOCOL": "its version of TLS is too old",
    "VERSION_TOO_LOW": "its version of TLS is too old",
    "NO_SHARED_CIPHER": "it has no cipher in common with this broker",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses this broker's certificate",
}


class TlsWire:
    """One client's TLS. Ciphertext is read into `scratch`, which keeps nothing between reads."""

    __slots__ = (
        "_decode",
        "_ended",
        "_incoming",
        "_outgoing",
        "_pins",
        "_scratch",
        "_tls",
        "greets_in_clear",
        "more",
        "timeout",
    )

    def __init__(
        self,
        context: "ClientFacingContext",
        scratch: memoryview,
        timeout: float,
        greets_in_clear: bool,
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._scratch = scratch
        self._ended = False  # the peer sends nothing more
        self._pins = context.pins
        self.greets_in_clear = greets_in_clear
        self.timeout = timeout
        self.more = False

    @property
    def forwarded(self) -> tuple[str, ...]:
        return ()

    @property
    def tls(self) -> tuple[str, str]:
        version, cipher = self._tls.version() or "", self._tls.cipher()
        name = cipher[0] if cipher else ""
        return version.removeprefix("TLSv"), SUITES.get(name, name)

    def certificates(self) -> list[bytes]:
        own = self._tls.getpeercert(binary_form=True)
        if own is None:
            return []
        # Public from Python 3.13 on. A session that is resumed has only the client's own.
        inner = getattr(self._tls, "_sslobj", None)
        chain = inner.get_unverified_chain() if inner is not None else None
        sent = [one.public_bytes(DER) for one in chain or ()]
        return sent if own in sent else [own, *sent]

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        from broker.wires.certificate_names import names_in  # only if asked for

        der = self._tls.getpeercert(binary_form=True)
        return () if der is None else names_in(self._tls.getpeercert() or {}, der)

    def feed(self, data: memoryview) -> None:
        self._incoming.write(data)

    def open(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise HandshakeFault(f"TLS handshake error: {reason_of(error)}", TLS_FAILURE) from None
        if self._pins:
            from broker.wires.tls_contexts import unpinned  # only if asked for

            if why := unpinned(self._pins, self._tls.getpeercert(binary_form=True)):
                raise HandshakeFault(f"TLS handshake error: {why}", TLS_FAILURE)
        self.more = True  # the client need not have waited
        return True

    def opens_late(self) -> bool:
        return False

    def receive(self, fd: int, target: memoryview) -> int:
        if self._ended:
            return 0
        room = len(target)
        first = size = 0
        if not self.more:
            # Room for a record, or the end of a long message would be read in very small parts.
            size = os.readv(fd, (self._scratch[: max(room, RECORD)],))
            if size == 0:
                return 0
        taken = 0
        try:
            while True:
                if first < size:  # in pieces: OpenSSL keeps the memory that it allocates for them
                    last = min(first + RECORD, size)
                    self._incoming.write(self._scratch[first:last])
                    first = last
                taken += self._decrypt(target, taken, room)
                if taken == room or self._ended or first == size:
                    break
        except ssl.SSLError as error:
            raise WireFault(f"TLS error: {reason_of(error)}") from None
        if first < size:
            self._incoming.write(self._scratch[first:size])
        self.more = taken == room and (self._incoming.pending > 0 or self._tls.pending() > 0)
        if self._ended:
            self.more = taken > 0  # the end comes with the next call
            return taken
        return taken or -1

    def _decrypt(self, target: memoryview, taken: int, room: int) -> int:
        """Decrypt the input into `target`, from `taken` on; return how many bytes."""
        begun = taken
        read, tls, incoming = self._tls.read, self._tls, self._incoming
        try:
            while taken < room:
                got = cast(int, read(room - taken, target[taken:]))
                if got == 0:
                    self._ended = True
                    break
                taken += got
                if not incoming.pending and not tls.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._ended = True
        return taken - begun

    def wrap(self, view: memoryview) -> list[bytes]:
        write, read = self._tls.write, self._outgoing.read
        wrapped = []
        try:
            for at in range(0, len(view), RECORD):
                write(view[at : at + RECORD])
                wrapped.append(read())
        except ssl.SSLError as error:
            raise WireFault(f"TLS error: {reason_of(error)}") from None
        return wrapped

    def to_send(self) -> bytes:
        return self._outgoing.read() if self._outgoing.pending else b""

    def farewell(self, reason: str) -> bytes:
        with suppress(ssl.SSLError):  # `unwrap` wants the peer's farewell, or the handshake failed
            self._tls.unwrap()
        return self._outgoing.read()

    def closed(self) -> None:
        self.more = False


def reason_of(error: ssl.SSLError) -> str:
    """Return the reason of a TLS error, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = error.reason or ""
    return REASONS.get(reason) or reason.lower().replace("_", " ") or "it broke the protocol"
