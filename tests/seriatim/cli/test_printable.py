"""Texts of others in a terminal: readable, and without a character that steers it."""

import json

from seriatim.cli.printable import printable, printable_json, printable_lines

HOSTILE = "a\x1b[2J\x9b\n\x7fü"


def test_given_text_that_controls_a_terminal_when_shown_then_it_is_harmless() -> None:
    assert printable(HOSTILE) == "a\\x1b[2J\\x9b\\n\\x7fü"
    assert printable_lines(HOSTILE) == "a\\x1b[2J\\x9b\n\\x7fü"


def test_given_json_with_controls_when_shown_then_it_is_harmless_and_the_same_json() -> None:
    shown = printable_json(json.dumps(HOSTILE, ensure_ascii=False))
    assert shown == '"a\\u001b[2J\\u009b\\n\\u007fü"'
    assert json.loads(shown) == HOSTILE
