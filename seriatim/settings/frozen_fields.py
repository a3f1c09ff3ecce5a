"""The base of classes whose fields are settings: frozen dataclasses, made without generated code.

    class Limits(FrozenFields):
        max_payload: int = setting(1 * MIB, "size", "The largest message accepted.")

A frozen dataclass compiles six functions of its own, one of them as long as the class has fields.
For the settings of a broker that took a tenth of its start. Here all classes share them.
`dataclasses` (`fields`, `replace`, `asdict`) and mypy treat such a class like any other. All fields
are given by name.
"""

import dataclasses
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True)
class FrozenFields:
    """Values by field; equal if all are, and never changed."""

    __dataclass_fields__: ClassVar[dict[str, "dataclasses.Field[Any]"]]

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)

    def __init__(self, **values: Any) -> None:
        made = {}
        for field in dataclasses.fields(self):
            if field.name in values:
                made[field.name] = values.pop(field.name)
            elif field.default is not dataclasses.MISSING:
                made[field.name] = field.default
            elif field.default_factory is not dataclasses.MISSING:
                made[field.name] = field.default_factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {field.name}")
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")
        vars(self).update(made)

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.repr
        ]
        return f"{type(self).__qualname__}({', '.join(shown)})"
