"""Limits on shared resources: no connection and no address may take everything.

Stages and remembered applications outlive connections and the broker, so the address is also in the
files. Those of older brokers have no owner, and count for no share.
Memory: an entry for each connection and each address that uses something now.
"""

from collections.abc import Collection
from typing import NamedTuple

from broker.addresses import network_of
from broker.dataplane.connection import Connection
from broker.limits.quota import Quota
from broker.settings.staging_settings import StagingSettings


class Owner(NamedTuple):
    """An owner: an address, and a connection from it; "" and 0 if unknown."""

    address: str
    connection: int


NOBODY = Owner("", 0)


def owner_of(connection: Connection) -> Owner:
    """Return the owner of what this connection stages."""
    return owner_at(connection.session.ip, connection.session.cid)


def owner_at(ip: str, connection: int) -> Owner:
    """Return a connection from this address, or from this network: a file has its name."""
    return Owner(network_of(ip.partition("/")[0]), connection)


class Shares:
    """The use of one resource with a total of `most`. For one thread."""

    def __init__(self, most: int, settings: StagingSettings) -> None:
        self._most = most
        self._shares = (
            ("address", max(most * settings.address_share // 100, 1)),
            ("connection", max(most * settings.connection_share // 100, 1)),
        )
        self._by_address: Quota[str] = Quota()
        self._by_connection: Quota[int] = Quota()

    def over(self, owner: Owner, amount: int) -> str:
        """Return why `amount` more would be too much for an owner; empty if it would not be.

        A share as large as the total is no limit: then only the total counts.
        """
        uses = self._by_address.of(owner.address), self._by_connection.of(owner.connection)
        for whose, has, (word, share) in zip(tuple(owner), uses, self._shares, strict=True):
            if whose and share < self._most and has + amount > share:
                return f"this {word} has {has} of its {share} (staging.{word}_share)"
        return ""

    def add(self, owner: Owner, amount: int) -> None:
        """Count an owner's use up, or down."""
        self._by_address.add(owner.address, amount)
        self._by_connection.add(owner.connection, amount)

    def greediest(self, owner: Owner, amount: int, spared: Collection[str] = ()) -> str | None:
        """The address with the most, if it has more than the owner would have with `amount` more.

        None if there is no such address: then no other owner must make room for this one.
        """
        found, most = None, self._by_address.of(owner.address) + amount
        for address, has in self._by_address.items():
            if has > most and address and address not in spared:
                found, most = address, has
        return found

    def has(self, address: str) -> int:
        """Return how much an address has."""
        return self._by_address.of(address)
