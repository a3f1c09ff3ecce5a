"""Values of a monitoring page, which may be of any broker, or of no broker at all.

A value that is missing, or of another kind than it should be, is 0, empty, or an empty list. So is
a number that no counter of a broker can reach.
"""

from typing import Any, Final

Page = dict[str, Any]
NUMBER_MAX: Final = (1 << 63) - 1


def number(page: Any, *path: str) -> float:
    """Return the number at this path, an `int` if it is one; 0 without one."""
    found = _at(page, path)
    is_number = isinstance(found, int | float) and -NUMBER_MAX <= found <= NUMBER_MAX
    return found if is_number else 0


def whole(page: Any, *path: str) -> int:
    """Return the whole number at this path; 0 without one."""
    return int(number(page, *path))


def text(page: Any, *path: str) -> str:
    """Return the text at this path; empty without one."""
    found = _at(page, path)
    return found if isinstance(found, str) else ""


def part(page: Any, *path: str) -> Page:
    """Return the object at this path; empty without one."""
    found = _at(page, path)
    return found if isinstance(found, dict) else {}


def parts(page: Any, *path: str) -> list[Page]:
    """Return the objects of the list at this path; none without one."""
    found = _at(page, path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def texts(page: Any, *path: str) -> list[str]:
    """Return the texts of the list at this path; none without one."""
    found = _at(page, path)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _at(page: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        page = page.get(name) if isinstance(page, dict) else None
    return page
