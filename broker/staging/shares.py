"""How much each has of what all share: no connection and no address may take all of it.

What is staged and remembered outlives connections, and broker. So the address stands in the files
too. What older brokers left has no owner, and counts for nobody's share.
Memory: an entry for each connection and each address that has something now.
"""

import socket
from collections.abc import Collection
from typing import Final, NamedTuple

from broker.addresses import peer_ip
from broker.dataplane.connection import Connection
from broker.settings.staging_settings import StagingSettings

LOOPBACK: Final = ("127.", "::1")  # how addresses of this machine begin, as peers are shown


class Owner(NamedTuple):
    """Whose something is: an address, and a connection from it; "" and 0 if unknown."""

    address: str
    connection: int


NOBODY = Owner("", 0)


def owner_of(connection: Connection) -> Owner:
    """Whoever is on this connection."""
    return owner_at(connection.session.ip, connection.session.cid)


def owner_at(ip: str, connection: int) -> Owner:
    """A connection from this address: all that one host can have for the asking are one.

    With IPv6 whoever has one address has 2^64, and on loopback there are 16 million.
    """
    ip = peer_ip(ip.partition("/")[0])  # as it stands in a file, perhaps
    if ip == LOOPBACK[1] or ip.startswith(LOOPBACK[0]):
        return Owner("loopback", connection)
    if ":" not in ip:
        return Owner(ip, connection)
    packed = socket.inet_pton(socket.AF_INET6, ip.partition("%")[0])
    network = socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))
    return Owner(f"{network}/64", connection)


class Shares:
    """Of one thing, of which there are at most `most`. For one thread."""

    def __init__(self, most: int, settings: StagingSettings) -> None:
        self._most = most
        self._shares = (
            ("address", max(most * settings.address_share // 100, 1)),
            ("connection", max(most * settings.connection_share // 100, 1)),
        )
        self._held: tuple[dict[object, int], dict[object, int]] = ({}, {})

    def over(self, owner: Owner, amount: int) -> str:
        """Why so much more would be too much for an owner; nothing if it would not be.

        A share of all there is is none: then it is all of it that is too little.
        """
        for whose, held, (word, share) in zip(tuple(owner), self._held, self._shares, strict=True):
            has = held.get(whose, 0)
            if whose and share < self._most and has + amount > share:
                return f"this {word} has {has} of its {share} (staging.{word}_share)"
        return ""

    def add(self, owner: Owner, amount: int) -> None:
        """It has so much more, or less."""
        for whose, held in zip(owner, self._held, strict=True):
            if has := held.get(whose, 0) + amount:
                held[whose] = has
            else:
                held.pop(whose, None)

    def greediest(self, owner: Owner, amount: int, spared: Collection[str] = ()) -> str | None:
        """The address that has most, if it has more than the owner would have with `amount` more.

        None if nobody has: then nobody else is to make room for that owner.
        """
        held = self._held[0]
        found, most = None, held.get(owner.address, 0) + amount
        for address, has in held.items():
            if has > most and address and address not in spared:
                found, most = str(address), has
        return found

    def has(self, address: str) -> int:
        """How much an address has."""
        return self._held[0].get(address, 0)
