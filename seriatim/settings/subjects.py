"""Kinds of settings that are subjects: one to publish to, or patterns with wildcards."""

from typing import Any, Final

from seriatim.settings.checked import (
    Setting,
    SettingKind,
    WrongValue,
    is_text,
    list_kind,
    quoted,
    shown_raw,
)

ENTRIES_SHOWN_MAX: Final = 3  # invalid entries of a list in one message


def check_subject(subject: str, wildcards: bool = True) -> str:
    """Return `subject`, if it can be subscribed to, or published to. Raises `WrongValue`."""
    tokens = subject.split(".")
    if not subject or any(character.isspace() for character in subject):
        raise WrongValue(
            f"{quoted(subject)} is not a valid subject; give words joined by dots, without spaces"
        )
    if not is_text(subject):
        raise WrongValue(f"{quoted(subject)} is not a valid subject: it must be UTF-8 here")
    if "" in tokens:
        raise WrongValue(
            f"{quoted(subject)} is not a valid subject: a word between its dots is empty"
        )
    if ">" in tokens[:-1]:
        raise WrongValue(f'{quoted(subject)} is not a valid subject: ">" may only be its last word')
    if not wildcards and (">" in tokens or "*" in tokens):
        raise WrongValue(f"{quoted(subject)} has a wildcard; a message is published to one subject")
    return subject


def is_subject(subject: str, wildcards: bool = True) -> bool:
    """True if `subject` can be subscribed to; without `wildcards`, published to."""
    try:
        check_subject(subject, wildcards)
    except WrongValue:
        return False
    return "\0" not in subject


def _check_entries(setting: Setting, entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """Raise `WrongValue` that says which entries of a list are not subjects, and why."""
    wrong = []
    for at, entry in enumerate(entries, 1):
        try:
            if not isinstance(entry, str):
                raise WrongValue(f"{shown_raw(entry)} is not a string; give a subject in quotes")
            check_subject(entry)
        except WrongValue as problem:
            wrong.append(f"entry {at}: {problem}")
    if wrong:
        more = len(wrong) - ENTRIES_SHOWN_MAX
        shown = "; ".join(wrong[:ENTRIES_SHOWN_MAX])
        raise WrongValue(f"{shown}; and {more} more" if more > 0 else shown)
    return entries


SUBJECT: Final = SettingKind(
    how="give words joined by dots",
    check=lambda setting, value: check_subject(value, wildcards=False),
    allowed=lambda setting: "a subject",
)
PATTERN: Final = SettingKind(
    how="give words joined by dots, wildcards too",
    check=lambda setting, value: check_subject(value),
    allowed=lambda setting: "a subject, wildcards too",
)
LIST: Final = list_kind(
    how="give a list of strings",
    check=_check_entries,
    allowed=lambda setting: "subjects, wildcards too",
)
