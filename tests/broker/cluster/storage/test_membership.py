"""What a member remembers: on the disk in time; and a new id whenever it may have lost data."""

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.cluster.storage.membership import (
    Membership,
    Remembered,
    boot_id,
    open_membership,
    read_member,
    why_renewed,
)
from broker.storage.member_store import FILE, FOLDER
from sequencer.journal.errors import StoreError
from tests.support.keepers import MEMBERS, view

OPEN = Remembered(
    "orders", MEMBERS[0], epoch=7, closed=False, boot="boot-1", sync="interval", place=5
)


@pytest.mark.parametrize(
    ("changes", "boot", "place", "damage", "why"),
    [
        ({}, "boot-1", 5, "", ""),  # killed, and the kernel still has what was written
        ({}, "boot-2", 5, "", "the machine has started again"),
        ({}, "", 5, "", "the machine has started again"),
        ({"boot": ""}, "", 5, "", "the machine has started again"),  # two unknown ones
        ({"closed": True}, "boot-2", 5, "", ""),
        ({"closed": True, "boot": ""}, "", 5, "", ""),
        ({"sync": "always"}, "boot-2", 5, "", ""),  # all that it acknowledged is on the disk
        ({"sync": "never"}, "boot-2", 5, "", "journal.sync = never"),
        ({"sync": "never"}, "boot-1", 5, "", ""),
        ({}, "boot-1", 5, "number 7 lost", "damaged: number 7 lost"),
        ({"closed": True}, "boot-1", 5, "number 7 lost", "damaged"),
        ({"sync": "always"}, "boot-1", 5, "number 7 lost", "damaged"),
        ({"closed": True}, "boot-1", 6, "", "is a copy"),
        ({"sync": "always"}, "boot-2", 6, "", "is a copy"),
    ],
)
def test_given_a_start_when_something_may_be_lost_then_the_member_needs_a_new_id(
    changes: dict[str, Any], boot: str, place: int, damage: str, why: str
) -> None:
    found = why_renewed(dataclasses.replace(OPEN, **changes), boot, place, damage)
    assert why in found
    assert bool(why) == bool(found)


def test_given_a_new_store_when_opened_then_it_is_a_new_member_and_stays_that(
    tmp_path: Path,
) -> None:
    store = str(tmp_path / "store")
    made, why = open_membership(store, "orders", "interval")
    assert why == ""
    assert len(made.member) == 16
    assert (made.epoch, made.revision, made.view, made.newest_run) == (0, 0, None, 0)
    again, why = open_membership(store, "orders", "interval")  # after kill -9
    assert why == ""
    assert again.member == made.member


def test_given_an_epoch_when_learned_then_it_is_on_the_disk(tmp_path: Path) -> None:
    member, _ = open_membership(str(tmp_path), "orders", "always")
    member.learn(9, 123, view(9, run=40))
    member.follow(3)
    member.learn_engine("0482")
    member.learn_addresses({MEMBERS[0]: "10.0.0.1:6222", "f" * 16: "10.0.0.9:6222"})
    member.learn_addresses({MEMBERS[1]: "10.0.0.2:6222"})
    found = read_member(str(tmp_path))
    assert found == member.remembered
    assert (member.epoch, member.revision, member.view) == (9, 123, view(9, run=40))
    assert (found.stream, found.engine) == (3, "0482")
    assert found.addresses == {MEMBERS[0]: "10.0.0.1:6222", MEMBERS[1]: "10.0.0.2:6222"}
    assert member.newest_run == 40


def test_given_what_is_known_already_when_learned_then_nothing_is_written(tmp_path: Path) -> None:
    member, _ = open_membership(str(tmp_path), "orders", "always")
    member.learn(9, 123, view(9))
    before = os.stat(tmp_path / FOLDER / FILE)
    member.learn(9, 123, view(9))
    member.follow(0)
    member.learn_engine("")
    member.learn_addresses({})
    assert os.stat(tmp_path / FOLDER / FILE) == before


def test_given_a_run_in_reserve_when_taken_then_no_process_gets_it_again(tmp_path: Path) -> None:
    member, _ = open_membership(str(tmp_path), "orders", "interval")
    assert member.take_reserve() == 0
    member.start_run(41)
    member.put_reserve(42)
    assert member.newest_run == 42
    member, _ = open_membership(str(tmp_path), "orders", "interval")
    assert member.take_reserve() == 42
    member, _ = open_membership(str(tmp_path), "orders", "interval")
    assert member.take_reserve() == 0
    assert member.newest_run == 42


def test_given_several_starts_when_one_was_not_synced_then_the_weakest_counts(
    tmp_path: Path,
) -> None:
    store = str(tmp_path)
    open_membership(store, "orders", "interval")
    member, _ = open_membership(store, "orders", "always")  # killed before: all may be unsynced
    assert member.remembered.sync == "interval"
    member.close()
    member, _ = open_membership(store, "orders", "always")
    assert member.remembered.sync == "always"
    member, _ = open_membership(store, "orders", "never")
    assert member.remembered.sync == "never"


def test_given_a_sync_that_failed_when_renewed_then_the_old_id_is_forgotten(
    tmp_path: Path,
) -> None:
    member, _ = open_membership(str(tmp_path), "orders", "interval")
    member.learn(9, 123, view(9))
    old = member.member
    member.renew()
    assert member.member != old
    assert member.view == view(9), "what it knows of views is as true as before"
    found = read_member(str(tmp_path))
    assert found is not None
    assert found.member == member.member


def test_given_a_copy_of_a_store_when_opened_then_it_is_another_member(tmp_path: Path) -> None:
    member, _ = open_membership(str(tmp_path / "one"), "orders", "interval")
    member.close()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    copied, why = open_membership(str(tmp_path / "two"), "orders", "interval")
    assert "copy" in why
    assert copied.member != member.member
    os.rename(tmp_path / "one", tmp_path / "moved")
    moved, why = open_membership(str(tmp_path / "moved"), "orders", "interval")
    assert (moved.member, why) == (member.member, "")
    again, why = open_membership(str(tmp_path / "two"), "orders", "interval")
    assert (again.member, why) == (copied.member, "")


def test_given_the_machine_started_again_when_opened_then_only_a_closed_member_is_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = tmp_path / "boot"
    boot.write_text("one\n")
    monkeypatch.setattr("broker.cluster.storage.membership.BOOT_ID", str(boot))
    assert boot_id() == "one"
    first, _ = open_membership(str(tmp_path), "orders", "interval")
    boot.write_text("two\n")
    second, why = open_membership(str(tmp_path), "orders", "interval")
    assert "started again" in why
    assert second.member != first.member
    second.close()
    boot.write_text("three\n")
    third, why = open_membership(str(tmp_path), "orders", "interval")
    assert (third.member, why) == (second.member, "")


def test_given_a_damaged_file_when_opened_then_it_is_a_new_member(tmp_path: Path) -> None:
    member, _ = open_membership(str(tmp_path), "orders", "interval")
    file = tmp_path / FOLDER / FILE
    file.write_bytes(file.read_bytes().replace(b'"epoch": 0', b'"epoch": 1'))
    assert read_member(str(tmp_path)) is None
    again, why = open_membership(str(tmp_path), "orders", "interval")
    assert "damaged" in why
    assert again.member != member.member


def test_given_a_store_of_another_cluster_when_opened_then_refused(tmp_path: Path) -> None:
    open_membership(str(tmp_path), "orders", "interval")
    with pytest.raises(StoreError, match=r"cluster orders, not to trades; give --cluster orders"):
        open_membership(str(tmp_path), "trades", "interval")


def test_given_a_file_of_a_newer_format_when_opened_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cluster.storage.membership.FORMAT", 2)
    Membership.create(str(tmp_path), "orders")
    monkeypatch.undo()
    with pytest.raises(StoreError, match="newer Seriatim"):
        read_member(str(tmp_path))


def test_given_a_run_that_the_engine_has_registered_then_an_older_store_does_not_know_it(
    tmp_path: Path,
) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    member, _ = open_membership(str(store), "orders", "interval")
    assert not member.is_outdated(0)
    member.claim(41, 0)
    assert member.newest_run == 41
    assert not member.is_outdated(41), "it was registered, and this process died before it knew"
    shutil.copytree(store, copy)
    member.note_registered(41)
    member, _ = open_membership(str(store), "orders", "interval")
    member.claim(43, 41)
    member.note_registered(43)
    assert not member.is_outdated(43)
    shutil.copytree(copy, store, dirs_exist_ok=True)
    member, why = open_membership(str(store), "orders", "interval")
    assert why == ""
    assert member.is_outdated(43)
    before = member.member
    member.renew()
    assert member.member != before
    assert not member.is_outdated(0), "nobody was registered for the new id"
