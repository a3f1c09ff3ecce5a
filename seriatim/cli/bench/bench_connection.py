"""A worker's connection to the broker under test, with errors for a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from seriatim.cli.bench.bench_plan import BenchPlan
from seriatim.cli.errors import CliError
from seriatim.cli.pubsub.broker_client import BrokerGone, reason
from seriatim.client.bulk_connection import BulkConnection, ConnectOptions
from seriatim.client.errors import BrokerError, ConnectionLost
from seriatim.client.server_address import read_address

FRAME: Final = "netstring"  # the shortest one that has the number


@contextmanager
def bench_connection(plan: BenchPlan, who: str = "") -> Iterator[BulkConnection]:
    """Connect; closed at the end. `BrokerError` inside becomes `CliError` that says who had it."""
    options = ConnectOptions(
        name="seriatim bench",
        connect_timeout=plan.timeout,
        timeout=plan.timeout,
        fields={"frame": FRAME},
        **plan.access.connect_options(),
    )
    address = read_address(plan.access.full_url)
    try:
        with BulkConnection.connect([address], options) as connection:
            yield connection
    except BrokerError as error:
        kind = BrokerGone if isinstance(error, ConnectionLost) else CliError
        text = f"{plan.access.shown}: {who and f'{who}: '}{reason(error, plan.access)}"
        raise kind(text.replace("\n", "\\n")) from None
