"""`seriatim help`: it prints what `--help` prints."""

import pytest

from seriatim.settings.usage import USAGE
from tests.seriatim.cli.command import refusal, seriatim


@pytest.mark.parametrize(
    "words", [(), ("serve",), ("stream",), ("stream", "ls"), ("cardinal", "consume"), ("help",)]
)
def test_given_a_command_when_help_is_asked_for_then_it_is_that_of_its_flag(
    words: tuple[str, ...],
) -> None:
    asked, flagged = seriatim("help", *words), seriatim(*words, "--help")
    assert (asked.returncode, asked.stderr) == (0, b"")
    assert f"Usage: {' '.join(('seriatim', *words))} ".encode() in asked.stdout
    assert asked.stdout == flagged.stdout


@pytest.mark.parametrize("before", [(), ("help",)], ids=["run", "help"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("xstream",), "No such command 'xstream'. Did you mean 'stream'? See `seriatim --help`"),
        (
            ("journal", "verifyx"),
            "No such command 'verifyx'. Did you mean 'verify'? See `seriatim journal --help`",
        ),
    ],
)
def test_given_a_misspelt_command_when_run_or_asked_about_then_the_near_ones_are_named(
    before: tuple[str, ...], words: tuple[str, ...], said: str
) -> None:
    assert refusal(*before, *words) == said


def test_given_words_after_a_command_without_commands_when_asked_about_then_they_are_refused() -> (
    None
):
    said = refusal("help", "sub", "orders.>")
    assert said == "`seriatim sub` has no commands of its own; leave out 'orders.>'"
    assert seriatim("help", "sub", "orders.>").returncode == USAGE
