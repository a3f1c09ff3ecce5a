"""A single setting: what it reads, what it shows, and its errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from seriatim.settings.amounts import COUNT, DURATION, SIZE
from seriatim.settings.checked import CHOICE, FLAG, TEXT, Setting, SettingKind, WrongValue
from seriatim.settings.subjects import LIST, is_subject

KINDS = {"text": TEXT, "choice": CHOICE, "flag": FLAG, "list": LIST}
KINDS |= {"count": COUNT, "size": SIZE, "duration": DURATION}
ROUTES = {"kind": "choice", "choices": ("north", "south")}
WINDOW = {"kind": "count", "low": 1, "high": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSetting(Setting):
    kinds: ClassVar[Mapping[str, SettingKind]] = KINDS


def of(**more: Any) -> OneSetting:
    return OneSetting(**{"default": None, "about": "One.", **more})


@pytest.mark.parametrize(
    ("given", "text", "why"),
    [
        (ROUTES, "nort", '"nort" is not one of north, south; did you mean "north"?'),
        (WINDOW, "65", "65 is above 64; give 1 to 64"),
        (WINDOW, "many", '"many" is not a whole number; give a whole number'),
        ({"kind": "flag"}, "maybe", '"maybe" is neither true nor false; give true or false'),
        ({"kind": "text"}, "a\nb", "'a\\nb' holds a character that cannot be printed"),
        (
            {"kind": "list"},
            "a..b",
            'entry 1: "a..b" is not a valid subject: a word between its dots is empty',
        ),
        ({"kind": "size"}, "8m", '"8m" is ambiguous; give 8MiB (of 1024) or 8MB'),
    ],
)
def test_given_a_wrong_text_when_read_then_it_says_what_may_be_written(
    given: dict[str, Any], text: str, why: str
) -> None:
    with pytest.raises(WrongValue) as refused:
        of(**given).read(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "raw", "why"),
    [
        ("flag", "true", '"true" is not a flag; give true or false, without quotes'),
        ("count", True, "true is not a whole number; give a whole number"),
        ("text", {"a": 1}, "a table is not a string; give a string"),
        ("list", "a", '"a" is not a list; give a list of strings'),
    ],
)
def test_given_a_value_of_anorter_type_in_a_file_when_read_then_it_says_which_is_meant(
    kind: str, raw: object, why: str
) -> None:
    with pytest.raises(WrongValue) as refused:
        of(kind=kind).read_native(raw)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("kind", "text", "value", "shown"),
    [
        ("flag", " Yes", True, "true"),
        ("size", "64KiB", 65536, "64KiB"),
        ("duration", "1m30s", 90.0, "90s"),
        ("list", "a.>, b", ("a.>", "b"), "a.>,b"),
    ],
)
def test_given_a_text_when_read_and_shown_then_it_means_the_same(
    kind: str, text: str, value: Any, shown: str
) -> None:
    setting = of(kind=kind)
    assert setting.read(text) == value
    assert setting.show(value) == shown
    assert setting.read(setting.show(value)) == value


def test_given_subjects_when_looked_at_then_wildcards_are_only_to_subscribe() -> None:
    assert is_subject("a.*.>")
    assert not is_subject("a.*", wildcards=False)
    assert not is_subject("a\0")
