"""Options that audit, replay and stats share: the source, and the range of numbers."""

from typing import Annotated

import typer

First = Annotated[
    int | None,
    typer.Option("--from", min=1, metavar="N", help="The first number.", show_default=False),
]
Last = Annotated[
    int | None,
    typer.Option("--to", min=1, metavar="N", help="The last number.", show_default=False),
]
# No default, and not from the environment: the source must be given explicitly.
OneServer = Annotated[
    str | None,
    typer.Option(
        *("-s", "--url", "--server"),
        metavar="URL",
        help="The broker whose journal is read: nats://HOST:PORT, or HOST:PORT.",
        show_default=False,
    ),
]
OneArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="ROOT",
        help="An archive, or any folder of Parquet files with a column `sequence`.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar=" ", help="JSON, for a program.")]
