"""`seriatim journal copy`: a backup with an exit status that says whether it is one."""

from pathlib import Path

import pytest

from sequencer.journal import Reader
from tests.sequencer.stores import WrittenStore, short
from tests.seriatim.cli.command import refusal, seriatim


@pytest.fixture
def store(tmp_path: Path) -> WrittenStore:
    return WrittenStore(tmp_path / "store", (1, 10), (11, 20))


def test_given_a_journal_when_copied_then_it_says_how_far_the_copy_reaches(
    store: WrittenStore, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    done = seriatim("journal", "copy", str(store.path), str(copy))
    assert (done.returncode, done.stderr) == (0, b"")
    said = f"copied {store.path} to {copy}: numbers 1 to 20, 2 segments, 1,"
    assert done.stdout.decode().startswith(said)
    assert short(Reader(str(copy)).records()) == list(range(1, 21))
    assert seriatim("journal", "verify", str(copy)).returncode == 0


def test_given_no_journal_named_when_copied_then_it_is_that_of_the_broker(
    store: WrittenStore, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    store.path.rename(state / "seriatim")
    done = seriatim("journal", "copy", str(tmp_path / "copy"), env={"XDG_STATE_HOME": str(state)})
    assert done.returncode == 0, done.stderr
    assert f"copied {state}/seriatim to {tmp_path}/copy" in done.stdout.decode()


def test_given_damage_when_copied_then_the_status_is_one(
    store: WrittenStore, tmp_path: Path
) -> None:
    store.spoil(11, 15)
    done = seriatim("journal", "copy", str(store.path), str(tmp_path / "copy"))
    assert done.returncode == 1
    assert b"number 15 is lost by damage in segment 11" in done.stderr
    assert b"is damaged, and so is its copy" in done.stderr


def test_given_what_cannot_be_copied_then_one_line_says_why(
    store: WrittenStore, tmp_path: Path
) -> None:
    path, copy = str(store.path), tmp_path / "copy"
    assert refusal("journal", "copy", path, path) == f"{path}: is not empty; give a new directory"
    none = str(tmp_path / "none")
    assert refusal("journal", "copy", none, str(copy)).startswith(f"{none}: no such directory")
    deep = str(tmp_path / "no" / "such" / "copy")
    assert refusal("journal", "copy", path, deep).endswith(": No such file or directory")
    assert "unexpected argument: c" in refusal("journal", "copy", "a", "b", "c")
    (store.path / "cluster").mkdir()
    (store.path / "cluster" / "member.json").write_text('{"cluster": "orders"}')
    said = refusal("journal", "copy", path, str(copy))
    assert "is a member of the cluster orders; each member is a copy already" in said
    assert not copy.exists()
