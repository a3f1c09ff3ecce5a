"""A store that is a member of a cluster: nothing else may write it."""

from pathlib import Path

import pytest

from broker.cluster.storage.membership import Membership
from broker.storage.member_store import cluster_of, refuse_member
from sequencer.journal.errors import StoreError
from tests.seriatim.cli.command import refusal, seriatim
from tests.support.stores import open_store, put


@pytest.fixture
def member(tmp_path: Path) -> str:
    """A store with messages that is a member of the cluster orders."""
    path = str(tmp_path / "store")
    store = open_store(tmp_path / "store")
    put(store, 3)
    store.close()
    Membership.create(path, "orders").close()
    return path


def test_given_a_store_alone_then_it_may_be_written(tmp_path: Path) -> None:
    assert cluster_of(str(tmp_path)) == ""
    assert cluster_of(str(tmp_path / "missing")) == ""
    refuse_member(str(tmp_path), "NAME")


def test_given_a_member_then_the_error_names_the_cluster_and_says_what_to_do(member: str) -> None:
    assert cluster_of(member) == "orders"
    with pytest.raises(StoreError) as caught:
        refuse_member(member, "give NAME or delete FOLDER")
    assert str(caught.value) == (
        f"{member}: this store is a member of the cluster orders;"
        f" give orders or delete {member}/cluster"
    )


def test_given_a_damaged_file_then_it_is_still_a_member(member: str) -> None:
    Path(member, "cluster", "member.json").write_bytes(b"\0\0")
    assert cluster_of(member) == "(its name cannot be read)"


def test_given_a_member_when_started_alone_then_it_is_refused(member: str) -> None:
    done = seriatim("serve", "-p", "-1", "-a", "127.0.0.1", "-sd", member)
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "this store is a member of the cluster orders; start it with --cluster orders" in said
    assert f"delete {member}/cluster" in said


def test_given_a_member_when_commands_would_write_its_journal_then_they_are_refused(
    member: str,
) -> None:
    for arguments in (("truncate", "--after", "1", "--yes"), ("index",)):
        said = refusal("journal", arguments[0], member, *arguments[1:])
        assert "this store is a member of the cluster orders; the cluster alone changes" in said


def test_given_a_member_when_its_journal_is_read_then_it_says_what_may_change(member: str) -> None:
    for command in ("info", "cat", "verify"):
        done = seriatim("journal", command, member)
        assert done.returncode == 0
        said = done.stderr.decode()
        assert f"{member} is a member of the cluster orders: its newest numbers may not be" in said
