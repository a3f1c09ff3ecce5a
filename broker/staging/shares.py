"""How much each has of what all share: no connection and no address may take all of it.

What is staged and remembered outlives connections, and broker. So the address stands in the files
too. What older brokers left has no owner, and counts for nobody's share.
Memory: an entry for each connection and each address that has something now.
"""

import socket
from typing import NamedTuple

from broker.link import Link
from broker.settings_staging import StagingSettings


class Owner(NamedTuple):
    """Whose something is: an address, and a connection from it; "" and 0 if unknown."""

    address: str
    connection: int


NOBODY = Owner("", 0)


def owner_of(link: Link) -> Owner:
    """Whoever is on this connection."""
    return owner_at(link.session.ip, link.session.cid)


def owner_at(ip: str, connection: int) -> Owner:
    """A connection from this address; with IPv6 whoever has one address has 2^64."""
    if ip.startswith("::ffff:") and "." in ip:
        return Owner(ip.removeprefix("::ffff:"), connection)
    if ":" not in ip:
        return Owner(ip, connection)
    packed = socket.inet_pton(socket.AF_INET6, ip.partition("%")[0])
    network = socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))
    return Owner(f"{network}/64", connection)


class Shares:
    """Of one thing, of which there are at most `most`. For one thread."""

    def __init__(self, most: int, settings: StagingSettings) -> None:
        self._shares = (
            ("address", max(most * settings.address_share // 100, 1)),
            ("connection", max(most * settings.connection_share // 100, 1)),
        )
        self._held: tuple[dict[object, int], dict[object, int]] = ({}, {})

    def over(self, owner: Owner, amount: int) -> str:
        """Why so much more would be too much for an owner; nothing if it would not be."""
        for whose, held, (word, share) in zip(tuple(owner), self._held, self._shares, strict=True):
            has = held.get(whose, 0)
            if whose and has + amount > share:
                return f"this {word} has {has} of its {share} (staging.{word}_share)"
        return ""

    def add(self, owner: Owner, amount: int) -> None:
        """It has so much more, or less."""
        for whose, held in zip(owner, self._held, strict=True):
            if has := held.get(whose, 0) + amount:
                held[whose] = has
            else:
                held.pop(whose, None)
