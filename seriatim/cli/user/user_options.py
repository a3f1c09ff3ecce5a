"""The options of `seriatim user`, declared for typer: flags and their help."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from seriatim.cli.user.user_rights import UserRights

RESPONSES_FLAG: Final = "--allow-responses"
_NUMBER: Final = re.compile(r"-?[0-9]+")


class OptionalNumber(TyperCommand):
    """A command whose `--allow-responses` may have a number after it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write the number after the option; 1 if there is none."""
        return super().parse_args(ctx, with_number(args))


def with_number(args: list[str]) -> list[str]:
    """Rewrite `--allow-responses` and `--allow-responses N` as `--allow-responses=N`."""
    words = list(args)
    done: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return [*done, word, *words]
        if word == RESPONSES_FLAG:
            number = words.pop(0) if words and _NUMBER.fullmatch(words[0]) else "1"
            word = f"{word}={number}"
        done.append(word)
    return done


File = Annotated[
    str | None,
    typer.Option(
        *("-f", "--file"),
        metavar="FILE",
        help="The file of users; by default that of the settings.",
        show_default=False,
    ),
]
Config = Annotated[
    str | None,
    typer.Option("-c", "--config", metavar="FILE", help="A TOML file of the broker's settings."),
]
Stdin = Annotated[
    bool,
    typer.Option("--password-stdin", metavar=" ", help="Read the password from standard input."),
]
Password = Annotated[
    str,
    typer.Option(
        metavar="SECRET",
        help="The password: file:PATH or env:NAME. In plain text, others can see it.",
        show_default=False,
    ),
]
Generate = Annotated[
    bool,
    typer.Option("--generate", metavar=" ", help="Generate a password, and print it once."),
]
Cost = Annotated[
    int,
    typer.Option(
        min=8,
        max=16,
        metavar="N",
        help="The cost of the bcrypt hash: one more doubles the time of a login.",
    ),
]
DEFAULT_COST: Final = 11  # as nats-server's own tool

RIGHTS = "What the user may do"


def _option(flag: str, metavar: str, help: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help, rich_help_panel=RIGHTS)


def given_rights(
    *,
    publish: Annotated[
        list[str] | None,
        _option(
            "--publish", "SUBJECT", "Publish here, wildcards too; repeatable. Default: anywhere."
        ),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        _option(
            "--subscribe",
            "'SUBJECT [QUEUE]'",
            "Subscribe here, with QUEUE only in this queue group; repeatable. Default: anywhere.",
        ),
    ] = None,
    deny_publish: Annotated[
        list[str] | None, _option("--deny-publish", "SUBJECT", "Not publish here; repeatable.")
    ] = None,
    deny_subscribe: Annotated[
        list[str] | None,
        _option("--deny-subscribe", "'SUBJECT [QUEUE]'", "Not subscribe here; repeatable."),
    ] = None,
    allow_responses: Annotated[
        int | None,
        _option(
            RESPONSES_FLAG,
            "[N]",
            "Publish N responses (default: 1, -1: any number) to each request it receives; without"
            " --publish nothing else.",
        ),
    ] = None,
    application: Annotated[
        list[str] | None,
        _option(
            "--application",
            "NAME",
            "Own this application of exactly-once publishing, wildcards too; repeatable.",
        ),
    ] = None,
    publish_rate: Annotated[
        str | None, _option("--publish-rate", "N", "At most so many messages a second.")
    ] = None,
    publish_bytes: Annotated[
        str | None, _option("--publish-bytes", "SIZE", "At most so many bytes a second.")
    ] = None,
) -> "UserRights":
    """Return the rights that these options give."""
    from seriatim.cli.user.user_rights import UserRights

    return UserRights(
        *(publish, subscribe, deny_publish, deny_subscribe, allow_responses, application),
        *(publish_rate, publish_bytes),
    )
