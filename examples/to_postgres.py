"""A table in PostgreSQL that follows the stream: each order is in it once, whatever is killed.

    python to_postgres.py nats://localhost:4222 orders.> "host=localhost dbname=orders"

A second one may be started beside it: it waits, and takes over when the first one is gone.
"""

import argparse
import sys
import time

import psycopg

import seriatim

TABLES = """
    CREATE TABLE IF NOT EXISTS orders (number bigint PRIMARY KEY, subject text, payload bytea);
    CREATE TABLE IF NOT EXISTS totals (subject text PRIMARY KEY, orders bigint, bytes bigint);
    CREATE TABLE IF NOT EXISTS place
        (id int PRIMARY KEY CHECK (id = 1), journal text, number bigint, time_ns bigint);
"""
ADD = """
    INSERT INTO totals VALUES (%s, 1, %s) ON CONFLICT (subject) DO UPDATE
    SET orders = totals.orders + 1, bytes = totals.bytes + excluded.bytes
"""
PLACE = """
    INSERT INTO place VALUES (1, %s, %s, %s) ON CONFLICT (id) DO UPDATE
    SET journal = excluded.journal, number = excluded.number, time_ns = excluded.time_ns
"""
LOCK = "SELECT pg_advisory_lock(hashtext('orders'))"
AGAIN_SECONDS = 1.0


def follow(stream: seriatim.BlockingClient, subject: str, tables: psycopg.Connection) -> None:
    """Write what comes, without end: the orders and the place in one transaction, or neither."""
    tables.execute(LOCK)  # one writer at a time, also of the tables: two that create them collide
    tables.execute(TABLES)
    found = tables.execute("SELECT journal, number, time_ns FROM place").fetchone()
    with stream.read(subject, start=seriatim.Position(*found) if found else 1) as reader:
        for messages in reader.batches():
            rows = [(one.number, one.subject, one.payload) for one in messages]
            with tables.transaction(), tables.cursor() as cursor:
                cursor.executemany("INSERT INTO orders VALUES (%s, %s, %s)", rows)
                cursor.executemany(ADD, [(one.subject, len(one.payload)) for one in messages])
                cursor.execute(PLACE, reader.position)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write orders to a table in PostgreSQL.")
    parser.add_argument("server", help="nats://host:port")
    parser.add_argument("subject", help="of the orders, such as orders.>")
    parser.add_argument("database", help="such as postgresql://user@host/orders")
    arguments = parser.parse_args()
    with seriatim.connect(arguments.server, wait=True) as stream:
        while True:
            try:
                with psycopg.connect(arguments.database, autocommit=True) as tables:
                    follow(stream, arguments.subject, tables)
            except psycopg.OperationalError as error:  # the place says whether the last one counts
                print(f"{error}; again in {AGAIN_SECONDS:.0f} s", file=sys.stderr)
                time.sleep(AGAIN_SECONDS)


if __name__ == "__main__":
    main()
