"""The view as the engine keeps it."""

import pytest

from sequencer.replica.view import BadView, View, view_from_json

VIEW = View("1141c2c3a6b8558d", 7, "a" * 16, 41, ("a" * 16, "b" * 16), stream=2, first=12)


def test_given_a_view_when_written_and_read_then_it_is_the_same() -> None:
    assert view_from_json(VIEW.to_json()) == VIEW
    assert VIEW.to_json().startswith(b'{"format":1,"journal":"1141c2c3a6b8558d","epoch":7,')


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a view"),
        (b"[]", "not a view"),
        (b'{"format":1}', "not a view"),
        (VIEW.to_json().replace(b'"format":1', b'"format":2'), "newer than this Seriatim knows"),
        (VIEW.to_json().replace(b'"epoch":7', b'"epoch":"7"'), "its epoch is '7'"),
        (VIEW._replace(members=()).to_json(), "its members are"),
    ],
)
def test_given_something_else_when_read_then_it_is_refused_with_the_reason(
    data: bytes, why: str
) -> None:
    with pytest.raises(BadView, match=why):
        view_from_json(data)
