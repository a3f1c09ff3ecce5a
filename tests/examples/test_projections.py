"""examples/to_sqlite.py and to_postgres.py: the tables are the journal, each order once."""

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from tests.examples.services import (
    Orders,
    Service,
    assert_equal,
    broker,
    journal_of,
    storm,
    until,
)
from tests.support.postgres_server import PostgresServer
from tests.support.processes import STAND_IN, ServerProcess, url

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")

Query = Callable[[str], list[tuple[Any, ...]]]


def order(at: int) -> tuple[str, bytes]:
    chance = Random(at)
    return f"orders.{chance.randrange(7)}", b"%d " % at + chance.randbytes(chance.randrange(200))


class Place:
    """How far the tables are, as it was seen last."""

    def __init__(self, ask: Query) -> None:
        self.number = 0
        self._ask = ask

    def look(self) -> int:
        try:
            (found,) = self._ask("SELECT coalesce(max(number), 0) FROM place")
            self.number = int(found[0])
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):  # not begun yet
            pass
        return self.number


def judge(server: ServerProcess, numbers: list[int], ask: Query, *services: Service) -> None:
    """The tables hold what the journal holds, when they have come so far."""
    until(lambda: Place(ask).look() == numbers[-1], services)
    kept = [(one.number, one.subject, bytes(one.payload)) for one in journal_of(server, "orders.>")]
    assert_equal(ask("SELECT number, subject, payload FROM orders ORDER BY number"), kept)
    assert_equal([one[0] for one in kept], numbers)
    assert_equal([one[1:] for one in kept], [order(at) for at in range(len(numbers))])
    count = Counter(subject for _, subject, _ in kept)
    size: Counter[str] = Counter()
    for _, subject, payload in kept:
        size[subject] += len(payload)
    totals = [(subject, count[subject], size[subject]) for subject in sorted(count)]
    assert ask("SELECT subject, orders, bytes FROM totals ORDER BY subject") == totals
    assert ask("SELECT number FROM place") == [(numbers[-1],)]


def test_given_kills_of_broker_and_program_then_the_sqlite_tables_are_the_journal(
    tmp_path: Path,
) -> None:
    file = tmp_path / "orders.db"

    def ask(query: str) -> list[tuple[Any, ...]]:
        table = sqlite3.connect(file)
        found = table.execute(query).fetchall()
        table.close()
        return found

    with broker() as server, Service("to_sqlite.py", url(server), "orders.>", file) as service:
        place = Place(ask)
        orders = Orders(url(server), order, taken=lambda: place.number)
        orders.start()
        storm(server, "sqlite", place.look, [service])
        judge(server, orders.end(), ask, service)


def test_given_kills_of_everything_then_the_postgres_tables_are_the_journal() -> None:
    with PostgresServer() as database, broker() as server:

        def kill_database() -> None:
            database.kill()
            database.start()

        def ask(query: str) -> list[tuple[Any, ...]]:
            with database.connect() as connection:
                return connection.execute(query.encode()).fetchall()

        arguments = ("to_postgres.py", url(server), "orders.>", database.address)
        place = Place(ask)
        orders = Orders(url(server), order, taken=lambda: place.number)
        with Service(*arguments) as one, Service(*arguments) as other:
            orders.start()
            storm(server, "postgres", place.look, [one, other], kill_database)
            judge(server, orders.end(), ask, one, other)


def test_given_two_that_start_at_once_then_they_do_not_collide_over_the_tables() -> None:
    with PostgresServer() as database, broker() as server:

        def ask(query: str) -> list[tuple[Any, ...]]:
            with database.connect() as connection:
                return connection.execute(query.encode()).fetchall()

        def are_waiting(count: int) -> bool:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            return ask(waiting) == [(count,)]

        arguments = ("to_postgres.py", url(server), "orders.>", database.address)
        with database.connect() as holder, contextlib.ExitStack() as stack:
            # Both find no table, and create it when this lock is released.
            with holder.transaction():
                holder.execute("LOCK TABLE pg_catalog.pg_type IN SHARE MODE")
                one, other = [stack.enter_context(Service(*arguments)) for _ in range(2)]
                until(lambda: are_waiting(2), [one, other])
            until(lambda: are_waiting(1), [one, other])  # the second one, for the first
            orders = Orders(url(server), order)
            orders.start()
            orders.progress.reach(100)
            judge(server, orders.end(), ask, one, other)
