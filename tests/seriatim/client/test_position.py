"""The place of a reader in a file: replaced as a whole, at most once a second, and at the end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seriatim.client import position
from seriatim.client.errors import InvalidArgument, Position
from seriatim.client.position import PlaceKeeper, PositionFile, read_position

HERE = Position("0123456789abcdef", 7, 1_700_000_000_000_000_000)


def test_given_a_position_when_written_then_it_is_read_and_nothing_else_is_left(
    tmp_path: Path,
) -> None:
    path = tmp_path / "place"
    assert PositionFile(path).load() is None
    file = PositionFile(path)
    assert not file.save(HERE)
    assert PositionFile(path).load() == HERE
    assert json.loads(path.read_text()) == HERE._asdict()
    assert [one.name for one in tmp_path.iterdir()] == ["place"]


def test_given_many_positions_in_a_second_then_one_is_written_and_the_last_is_due_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "place"
    later: list[tuple[float, Callable[[], None]]] = []
    keeper = PlaceKeeper(path, lambda seconds, function: later.append((seconds, function)))
    for number in range(1, 100):
        assert keeper.save(HERE._replace(number=number)) is None
    assert PositionFile(path).load() == HERE._replace(number=1)
    assert len(later) == 1
    later[0][1]()
    assert PositionFile(path).load() == HERE._replace(number=99)
    keeper.save(HERE._replace(number=100))
    keeper.flush()
    assert PositionFile(path).load() == HERE._replace(number=100)


def test_given_a_second_that_has_passed_then_the_next_position_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position, "WRITE_SECONDS", 0)
    file = PositionFile(tmp_path / "place")
    for number in range(1, 4):
        assert not file.save(HERE._replace(number=number))
        assert PositionFile(file.path).load() == HERE._replace(number=number)


def test_given_a_file_that_cannot_be_written_then_the_old_one_stays_whole(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = PositionFile(folder / "place")
    file.save(HERE)
    for one in folder.iterdir():
        one.unlink()
    folder.rmdir()
    file.save(HERE._replace(number=8))
    with pytest.raises(OSError, match="place"):
        file.flush()
    folder.mkdir()
    file.flush()  # it is still due
    assert PositionFile(file.path).load() == HERE._replace(number=8)


def test_given_a_folder_in_place_of_the_file_then_it_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read"):
        PositionFile(tmp_path).load()


@pytest.mark.parametrize(
    "kept", [HERE, tuple(HERE), list(HERE), HERE._asdict(), ("0123456789abcdef", 7)], ids=str
)
def test_given_the_fields_of_a_position_in_any_form_then_it_is_one(kept: Any) -> None:
    found = read_position(kept)
    assert found is not None
    assert found[:2] == HERE[:2]


@pytest.mark.parametrize(
    "kept", [7, "x", (), ("a",), ("a", "7"), ("a", -1), ("a", True), {"x": 1}, ("a", 1, None), b""]
)
def test_given_anything_else_then_it_is_none(kept: Any) -> None:
    with pytest.raises(ValueError, match="is not a position"):
        read_position(kept)
