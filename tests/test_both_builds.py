"""What `--pure` runs: it reaches every hot module, and leaves out what the build cannot change."""

from pathlib import Path

import pytest

from tests.conftest import ROOMS
from tests.support.both_builds import (
    COMPILED_ONLY,
    PROGRAMS,
    TESTS,
    hot_modules_of,
    is_hot,
    is_of_both,
)
from tests.support.places import ROOT

FILES = sorted(TESTS.rglob("test_*.py"))
HOT = {file for room in ROOMS for file in (ROOT / room).rglob("*.py") if is_hot(file)}


def test_given_the_hot_modules_then_each_is_reached_by_tests_that_run_in_both_builds() -> None:
    reached = {hot for file in FILES if is_of_both(file) for hot in hot_modules_of(file)}
    assert len(HOT) > 20
    assert HOT - reached == set()


def test_given_the_rooms_of_hot_modules_then_their_tests_beside_them_run_in_both_builds() -> None:
    for hot in HOT:
        beside = TESTS / hot.parent.relative_to(ROOT)
        assert any(is_of_both(file) for file in beside.glob("test_*.py")), hot


@pytest.mark.parametrize("path", [*PROGRAMS, *COMPILED_ONLY], ids=str)
def test_given_the_lists_then_what_they_name_is_there(path: Path) -> None:
    assert path.exists()


@pytest.mark.parametrize(
    ("file", "both"),
    [
        ("parser/test_machine.py", True),  # imports it
        ("broker/dataplane/test_plane_model.py", True),  # by way of tests/support
        ("broker/test_turn_bounds.py", False),  # bounds are those of the build that users run
        ("wire/test_differential.py", True),  # a program
        ("clients/test_nats_py.py", True),
        ("clients/test_nats_py_connection.py", False),
        ("broker/test_server_stop.py", False),  # only starts brokers
        ("broker/wires/test_go_json.py", False),  # never compiled
        ("broker/test_protocol_docs.py", False),
        ("seriatim/cli/test_cli.py", False),
        ("test_packaging.py", False),
        ("test_house_rules.py", False),
    ],
)
def test_given_a_test_file_then_its_imports_say_whether_it_runs_in_both_builds(
    file: str, both: bool
) -> None:
    assert is_of_both(TESTS / file) is both
