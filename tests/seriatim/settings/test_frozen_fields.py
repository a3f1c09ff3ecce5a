"""Frozen classes of fields: what dataclasses promise, without code of their own."""

import dataclasses
import pickle
from typing import Any

import pytest

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import setting


class Inner(FrozenFields):
    """One inside another."""

    secret: str = setting("", "secret", "Not shown.")


class Outer(FrozenFields):
    """A field of each kind."""

    port: int = setting(dataclasses.MISSING, "port", "It has no default.")
    size: int = setting(7, "size", "It has one.")
    inner: Inner = dataclasses.field(default_factory=Inner)


def test_given_fields_by_name_when_made_then_the_others_have_their_defaults() -> None:
    made = Outer(port=1)
    assert (made.port, made.size, made.inner) == (1, 7, Inner())
    assert repr(made) == "Outer(port=1, size=7, inner=Inner())"


@pytest.mark.parametrize(
    ("values", "said"),
    [({}, "Outer needs port"), ({"port": 1, "prot": 2, "x": 3}, "Outer has no prot, x")],
)
def test_given_wrong_names_when_made_then_they_are_reported(values: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Outer(**values)


def test_given_two_when_compared_then_they_are_equal_if_their_fields_are() -> None:
    assert Outer(port=1) == Outer(port=1, size=7)
    assert hash(Outer(port=1)) == hash(Outer(port=1, size=7))
    assert Outer(port=1) != Outer(port=2)
    assert Inner(secret="7") != Outer(port=7)


def test_given_one_when_changed_then_it_refuses() -> None:
    made = Outer(port=1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'port'"):
        made.port = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'port'"):
        del made.port
    assert made.port == 1


def test_given_one_when_dataclasses_are_asked_then_it_is_one_of_them() -> None:
    made = Outer(port=1)
    assert [field.name for field in dataclasses.fields(made)] == ["port", "size", "inner"]
    assert dataclasses.replace(made, size=8) == Outer(port=1, size=8)
    assert dataclasses.asdict(made) == {"port": 1, "size": 7, "inner": {"secret": ""}}
    assert pickle.loads(pickle.dumps(made)) == made
