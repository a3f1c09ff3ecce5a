"""Options that commands share: each command has them, and gets what they mean."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from seriatim.settings.shared_options import Json, with_options


@dataclass(frozen=True)
class Place:
    """A group of options."""

    host: Annotated[str, typer.Option("--host", help="Where.")] = "here"
    port: Annotated[int, typer.Option("--port", help="Which.")] = 1


def doubled(*, number: Annotated[int, typer.Option("--number", help="How many.")] = 2) -> int:
    return 2 * number


app = typer.Typer()


@app.command()
@with_options(place=Place, count=doubled)
def both(name: str, json: Json = False, *, place: Place, count: int) -> None:
    print(name, json, place, count)


@app.command()
@with_options("port", place=Place)
def one(*, place: Place) -> None:
    print(place)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("both a", f"a False {Place()} 4\n"),
        ("both a --port 7 --number 5 --json", f"a True {Place(port=7)} 10\n"),
        ("one --host there", f"{Place('there')}\n"),
    ],
)
def test_given_shared_options_when_a_command_runs_then_it_gets_what_they_mean(
    words: str, said: str
) -> None:
    assert CliRunner().invoke(app, words.split()).output == said


def test_given_an_option_that_a_command_leaves_out_then_it_does_not_have_it() -> None:
    assert CliRunner().invoke(app, ["one", "--port", "7"]).exit_code == 2


def test_given_a_caller_in_python_then_it_may_give_the_argument_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both("a", count=1)
    both("a", place=Place("there"), count=1)
    said = capsys.readouterr().out
    assert said == f"a False {Place()} 1\na False {Place('there')} 1\n"
