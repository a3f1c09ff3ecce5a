"""What mypy knows of `cython`, whose own package has no types: the casts of the hot modules."""

from typing import Any, TypeVar, overload

Cast = TypeVar("Cast")

compiled: bool

@overload
def cast(type: type[Cast], value: object) -> Cast: ...
@overload
def cast(type: str, value: object) -> Any: ...  # a type of C
def address(value: object) -> Any: ...
