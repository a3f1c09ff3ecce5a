"""What is wrong with arguments, in plain words: as typer's parser really reports it."""

from typing import Annotated, Any

import pytest
import typer

from seriatim.settings.usage import usage_text

app = typer.Typer()


@app.command()
def command(
    place: str,
    count: Annotated[int, typer.Option(min=1)] = 1,
    most: Annotated[int, typer.Option(max=9)] = 1,
    loss: Annotated[float, typer.Option(min=0.5, max=2)] = 1.0,
    port: int = 0,
    rate: float = 0.0,
) -> None:
    """Have one option of each kind."""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("x --count 0", "--count: 0 is out of range; give 1 or more"),
        ("x --count -5", "--count: -5 is out of range; give 1 or more"),
        ("x --count many", "--count: 'many' is not a whole number"),
        ("x --most 10", "--most: 10 is out of range; give 9 or less"),
        ("x --loss 0.2", "--loss: 0.2 is out of range; give 0.5 to 2"),
        ("x --loss much", "--loss: 'much' is not a number"),
        ("x --port 1.5", "--port: '1.5' is not a whole number"),
        ("x --rate fast", "--rate: 'fast' is not a number"),
        ("x y z", "unexpected argument: y z"),
        ("", "Missing argument 'place'"),
    ],
)
def test_given_wrong_arguments_when_parsed_then_plain_words_say_why(
    arguments: str, words: str
) -> None:
    error: Any = typer.BadParameter.__mro__[1]
    with pytest.raises(error) as caught:
        app(args=arguments.split(), standalone_mode=False)
    assert usage_text(caught.value) == words
