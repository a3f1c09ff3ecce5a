"""The options of commands that read the past: where to begin and to end, and how long to try."""

from typing import Annotated

import typer

First = Annotated[
    int | None,
    typer.Option("--from", min=1, metavar="N", help="Begin at number N, in the past."),
]
Last = Annotated[
    int | None,
    typer.Option("--to", min=1, metavar="N", help="End at number N; needs --from."),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Begin at a time: how long ago (30s, 10m, 2h, 1d), or a date (UTC)."
    ),
]
Latest = Annotated[
    bool,
    typer.Option("--last", metavar=" ", help="Begin with the last message of each subject."),
]
UntilNow = Annotated[
    bool,
    typer.Option(
        *("-e", "--until-now"),
        metavar=" ",
        help="End at the newest message there is now; needs --from or --since.",
    ),
]
Reconnect = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="With --from, --since or --last: how long to try to reconnect. By default forever.",
        show_default=False,
    ),
]
