"""What members tell about themselves, as the engine keeps it."""

import json

import pytest

from broker.cluster.engine.view_keeper import presence_from_json
from tests.support.keepers import presence


def test_given_a_presence_when_kept_as_json_then_it_comes_back() -> None:
    told = presence(clients=("a:1", "[::1]:2"), http="a:3")
    assert presence_from_json(told.to_json()) == told


def test_given_fields_of_a_newer_version_when_read_then_they_are_passed_over() -> None:
    fields = {**json.loads(presence().to_json()), "colour": "blue"}
    assert presence_from_json(json.dumps(fields).encode()) == presence()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b'{"name":"one"}', b"\xff"])
def test_given_anything_else_when_read_then_it_is_nobody(data: bytes) -> None:
    assert presence_from_json(data) is None
