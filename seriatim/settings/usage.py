"""Errors in the arguments of a command: in plain words, and as an exit status.

The status is that of sysexits.h. 1 and 2 are results of some commands: `seriatim check` exits with
2 for warnings alone, an audit with 1 for its findings. So neither may mean a misspelt flag.
"""

import re
from typing import Any, Final

USAGE: Final = 64

_INVALID: Final = re.compile(r"Invalid value for '?([^':]+)'?: ")
_NO_NUMBER: Final = re.compile(
    r"('.*') is not a valid (int(?:eger)?|float)(?: range)?\b", re.DOTALL
)
_RANGE: Final = re.compile(
    r"(\S+) is not in the range (?:([^<x]+)<=?)?x(?:(>=?|<=?)(\S+?))?(?=\.?$)"
)
_EXTRA: Final = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)


def usage_text(error: Any) -> str:
    """Return a parser's error about arguments, in one line."""
    text = " ".join(error.format_message().split())
    text = _INVALID.sub(r"\1: ", text, count=1)
    text = _NO_NUMBER.sub(_no_number, text)
    text = _RANGE.sub(_outside, text)
    return _EXTRA.sub(r"unexpected argument: \1", text).rstrip(".")


def _no_number(found: "re.Match[str]") -> str:
    kind = "a number" if found[2] == "float" else "a whole number"
    return f"{found[1]} is not {kind}"


def _outside(found: "re.Match[str]") -> str:
    least, sign, bound = found[2], found[3] or "", found[4]
    if least and bound:
        allowed = f"{least} to {bound}"
    elif sign.startswith(">"):
        allowed = f"{bound} or more"
    else:
        allowed = f"{bound} or less"
    return f"{found[1]} is out of range; give {allowed}"
