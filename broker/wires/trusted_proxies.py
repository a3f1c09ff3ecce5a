"""The address of the client behind a proxy, which a header names.

Only a trusted proxy is believed, because any client can send such a header. Each proxy on the
way adds the address that it sees at the end, so the client is the last one that is no trusted
proxy: anything before it may be made up.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

from broker.addresses import peer_ip

HOPS_MAX: Final = 16  # proxies on the way; more are made up


class TrustedProxies:
    """The trusted proxies. Immutable: a reload makes another one."""

    def __init__(self, header: str, networks: tuple[str, ...]) -> None:
        self.header = header
        self.variable = "HTTP_" + header.upper().replace("-", "_")  # of WSGI
        self._networks = [ipaddress.ip_network(one) for one in networks]

    def trusts(self, ip: str) -> bool:
        """True if this address is that of a trusted proxy."""
        try:
            address = ipaddress.ip_address(peer_ip(ip.partition("%")[0]))
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def client(self, peer: str, values: Iterable[str]) -> str:
        """Return the client's address, for a peer that has sent these values of the header."""
        if not self.trusts(peer):
            return peer
        found = peer
        for word in reversed(",".join(values).split(",")[-HOPS_MAX:]):
            ip = _address(word.strip())
            if not ip:
                break
            found = ip
            if not self.trusts(ip):
                break
        return found


def _address(word: str) -> str:
    """Return the address in a word, without port and brackets around IPv6; empty for none."""
    if word.startswith("["):
        word = word[1:].partition("]")[0]
    elif word.count(":") == 1:
        word = word.partition(":")[0]
    try:
        return peer_ip(str(ipaddress.ip_address(word)))
    except ValueError:
        return ""
