"""UDP datagrams in a capture of tcpdump, dumpcap or Wireshark: pcap and pcapng, by dpkt.

Link types: Ethernet with and without VLAN tags, Linux' cooked ones (`-i any`), BSD's loopback, and
bare IP. Fragments of IPv4 are put together. Memory: one packet, and up to `FRAGMENTED_MAX`
datagrams whose fragments are not all there yet.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, BinaryIO, Final

from seriatim.cli.errors import CliError

NO_DPKT: Final = "reading captures needs dpkt, which is not installed here: pip install dpkt"
PCAPNG: Final = b"\x0a\x0d\x0d\x0a"
FRAGMENTED_MAX: Final = 64
UDP_HEAD: Final = 8
UDP: Final = 17
NO_ADDRESSES: Final = bytes(12)  # Linux' cooked packets have an Ethernet type, and tags behind it
NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CapturedDatagram:
    """One datagram: when, from where, to where."""

    time_ns: int
    source: tuple[bytes, int]
    target: tuple[bytes, int]
    payload: bytes


@dataclass(slots=True)
class DatagramCapture:
    """The reader of one capture; it counts what it cannot use."""

    name: str
    file: BinaryIO
    packets: int = 0
    cut: int = 0  # packets of which the capture has only the beginning
    torn: bool = False  # the file ends in the middle of a packet
    _parts: dict[Any, dict[int, bytes]] = field(default_factory=dict)
    _sizes: dict[Any, int] = field(default_factory=dict)

    @property
    def fragmented(self) -> int:
        """How many datagrams lack a fragment."""
        return len(self._parts)

    def datagrams(self) -> Iterator[CapturedDatagram]:
        """Yield what is sent by UDP. Raises `CliError` for a file that is no capture."""
        for time, link, packet in self._packets():
            self.packets += 1
            found = _ip_of(link, packet)
            if found is not None and (udp := self._udp_of(found)) is not None:
                size = udp.ulen - UDP_HEAD
                if not 0 <= size <= len(udp.data):
                    self.cut += 1
                    continue
                yield CapturedDatagram(
                    _nanoseconds(time),
                    (found.src, udp.sport),
                    (found.dst, udp.dport),
                    bytes(udp.data[:size]),
                )

    def _packets(self) -> Iterator[tuple[Any, Callable[[bytes], Any], bytes]]:
        """Yield the time, the kind of link, and the bytes of each packet."""
        dpkt = _dpkt()
        begin = self.file.peek(len(PCAPNG))[: len(PCAPNG)]  # type: ignore[attr-defined]
        try:
            reader = (dpkt.pcapng if begin == PCAPNG else dpkt.pcap).Reader(self.file)
        except (ValueError, dpkt.Error):
            raise CliError(f"{self.name}: is not a capture; give a file of tcpdump -w") from None
        link = _link_of(dpkt, reader.datalink())
        if link is None:
            kind = reader.datalink()
            raise CliError(f"{self.name}: its link type, {kind}, is not supported; capture UDP/IP")
        try:
            for time, packet in reader:
                yield time, link, packet
        except (dpkt.Error, ValueError):
            self.torn = True

    def _udp_of(self, ip: Any) -> Any:
        """Return the whole UDP datagram that ends with this packet, or None."""
        dpkt = _dpkt()
        if ip.p != UDP:
            return None
        if ip.v != 4 or not (ip.mf or ip.offset):
            return ip.data if isinstance(ip.data, dpkt.udp.UDP) else None
        whole = self._put_together(ip)
        try:
            return whole and dpkt.udp.UDP(whole)
        except dpkt.Error:
            return None

    def _put_together(self, ip: Any) -> bytes | None:
        """Keep a fragment; return the datagram if that was the last one missing."""
        key = ip.src, ip.dst, ip.id
        parts = self._parts.setdefault(key, {})
        data = bytes(ip.data)
        parts[ip.offset * 8] = data
        if not ip.mf:
            self._sizes[key] = ip.offset * 8 + len(data)
        if sum(map(len, parts.values())) == self._sizes.get(key):
            self._sizes.pop(key)
            return b"".join(part for _, part in sorted(self._parts.pop(key).items()))
        if len(self._parts) > FRAGMENTED_MAX:
            oldest = next(iter(self._parts))
            self._sizes.pop(oldest, None)
            del self._parts[oldest]
            self.cut += 1
        return None


def open_capture(path: str) -> BinaryIO:
    """Open a capture; "-" is standard input. Raises `CliError`."""
    _dpkt()
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise CliError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _dpkt() -> Any:
    try:
        import dpkt
    except ImportError:
        raise CliError(NO_DPKT) from None
    return dpkt


def _link_of(dpkt: Any, kind: int) -> Callable[[bytes], Any] | None:
    """Return what reads packets of this link type (tcpdump.org/linktypes.html)."""
    links: dict[int, Callable[[bytes], Any]] = {
        0: dpkt.loopback.Loopback,
        1: dpkt.ethernet.Ethernet,
        12: _bare_ip,
        101: _bare_ip,
        108: dpkt.loopback.Loopback,
        113: lambda packet: dpkt.ethernet.Ethernet(NO_ADDRESSES + packet[14:]),
        228: _bare_ip,
        229: _bare_ip,
        276: lambda packet: dpkt.ethernet.Ethernet(NO_ADDRESSES + packet[:2] + packet[20:]),
    }
    return links.get(kind)


def _nanoseconds(time: Any) -> int:
    """Return a time in ns; dpkt's floats are exact to a microsecond."""
    return int(time * NS) if isinstance(time, Decimal) else round(time * 1_000_000) * 1000


def _bare_ip(packet: bytes) -> Any:
    dpkt = _dpkt()
    return (dpkt.ip6.IP6 if packet[:1] >= b"\x60" else dpkt.ip.IP)(packet)


def _ip_of(link: Callable[[bytes], Any], packet: bytes) -> Any:
    """Return the IP packet in a packet of the link; None if it is something else."""
    dpkt = _dpkt()
    kinds = dpkt.ip.IP, dpkt.ip6.IP6
    try:
        found = link(packet)
    except Exception:  # anybody's bytes: dpkt raises errors of many kinds
        return None
    if not isinstance(found, kinds):
        found = found.data
    return found if isinstance(found, kinds) else None
