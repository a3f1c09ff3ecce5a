"""One client uses all that it may of staging: others can still stage and commit."""

import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from broker.addresses import network_of
from broker.settings.staging_settings import StagingSettings
from broker.staging import applications
from broker.staging.shares import NOBODY, Owner, Shares, owner_at
from broker.staging.staging_service import WAITERS_MAX
from broker.storage.sealed_lines import seal, unseal
from sequencer.replica.batches.batch_commits import WAITING_MAX
from tests.support.serving import WAIT_S, Broker, serving
from tests.support.staging import (
    Answer,
    Batch,
    Publisher,
    Refused,
    engine_of,
    is_read,
    leave_as_older,
    piece,
    request,
    rewrite_end,
)

ROW = b"PUB orders 5\r\nhello\r\n"
GREEDY, OTHER, ANOTHER = "127.0.0.1", "127.0.0.2", "127.0.0.3"
HOUR_MS = 3_600_000


def refused(told: list[Answer]) -> list[Refused]:
    return [one for one in told if isinstance(one, Refused)]


def names(publisher: Publisher, word: str, count: int) -> int:
    """Commit a batch without a row under so many names; how many were taken."""
    told: list[Answer] = []
    for first in range(0, count, 8):
        batches = (Batch(f"{word}{at}", 0, 0, stages=0) for at in range(first, first + 8))
        told += publisher.ask(*(batch.commit() for batch in batches))
    assert {one.status for one in refused(told)} <= {429}
    return len(told) - len(refused(told))


def test_given_one_that_takes_all_names_then_others_have_theirs_also_after_a_restart(
    tmp_path: Path,
) -> None:
    flags = {"staging.max_applications": "40"}
    with serving(tmp_path, flags=flags) as broker:
        assert names(Publisher(broker, GREEDY), "a", 40) == 10, "a quarter"
        same = Publisher(broker, GREEDY)
        assert names(same, "b", 40) == 10, "another connection, up to half for the address"
        assert same.one(Batch("c", 0, 0, stages=0).commit()) == Refused(
            429,
            "Too many applications are known: this address has 20 of its 20"
            " (staging.address_share)",
        )
        assert same.publish(Batch("a0", 1, 3))["rows"] == 3, "its own go on"
    with serving(tmp_path, flags=flags) as broker:
        assert names(Publisher(broker, GREEDY), "d", 8) == 0
        other = Publisher(broker, OTHER)
        assert other.publish(Batch("e", 0, 3))["rows"] == 3
        assert names(other, "f", 40) == 9


def test_given_one_that_takes_all_stages_then_others_have_theirs_also_after_a_restart(
    tmp_path: Path,
) -> None:
    flags = {"staging.max_stages": "40"}

    def stage(publisher: Publisher, word: str) -> int:
        told = publisher.ask(*(piece("app", 1, f"{word}{at}", 0, ROW) for at in range(40)))
        assert {one.status for one in refused(told)} == {429}
        return len(told) - len(refused(told))

    with serving(tmp_path, flags=flags) as broker:
        assert stage(Publisher(broker, GREEDY), "a") == 10
        assert stage(Publisher(broker, GREEDY), "b") == 10
        assert stage(Publisher(broker, GREEDY), "c") == 0
    with serving(tmp_path, flags=flags) as broker:
        assert stage(Publisher(broker, GREEDY), "c") == 0
        other = Publisher(broker, OTHER)
        assert other.publish(Batch("e", 0, 10, stages=5))["rows"] == 10
        assert stage(other, "f") == 10


def test_given_one_that_takes_all_bytes_then_others_have_theirs_also_after_a_restart(
    tmp_path: Path,
) -> None:
    flags = {"staging.max_bytes": "40KB"}
    row = b"PUB a 980\r\n" + b"x" * 980 + b"\r\n"

    def stage(publisher: Publisher, word: str) -> list[Answer]:
        at = len(row)
        return publisher.ask(*(piece("app", 1, word, at * n, row) for n in range(40)))

    with serving(tmp_path, flags=flags) as broker:
        told = stage(Publisher(broker, GREEDY), "a")
        assert told[10] == Refused(
            413,
            "Too many bytes are staged: this connection has 9930 of its 10000"
            " (staging.connection_share)",
        )
        assert len(refused(stage(Publisher(broker, GREEDY), "b"))) == 30
        assert len(refused(stage(Publisher(broker, GREEDY), "c"))) == 40
    with serving(tmp_path, flags=flags) as broker:
        assert len(refused(stage(Publisher(broker, GREEDY), "c"))) == 40
        other = Publisher(broker, OTHER)
        assert len(refused(stage(other, "d"))) == 30
        dropped = other.one(request("ABORT", {"application": "app", "batch": 1}))
        assert dropped == {"dropped": 3}
        assert len(refused(stage(Publisher(broker, GREEDY), "c"))) == 30, "what goes is given back"


def stages_of(publisher: Publisher, word: str, count: int) -> int:
    """Begin so many stages; how many were taken."""
    told = publisher.ask(*(piece("app", 1, f"{word}{at}", 0, ROW) for at in range(count)))
    assert {one.status for one in refused(told)} <= {429}
    return len(told) - len(refused(told))


def test_given_two_that_have_all_stages_then_who_has_little_takes_from_who_has_most(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, flags={"staging.max_stages": "40"}) as broker:
        for host in (GREEDY, GREEDY, OTHER, OTHER):
            assert stages_of(Publisher(broker, host), f"{host}-{len(broker.clients)}-", 20) == 10
        another = Publisher(broker, ANOTHER)
        assert another.publish(Batch("e", 0, 10, stages=5))["rows"] == 10
        assert stages_of(another, "f", 10) == 10
        assert staged(broker) == 40
        assert broker.server.staging is not None
        assert broker.server.staging.stages.displaced == 10
        assert stages_of(another, "g", 10) == 0, "its share for one connection"
        more = stages_of(Publisher(broker, ANOTHER), "h", 10)
        assert more == 3, "then it has 13, and they have 13 and 14"
    with serving(tmp_path, flags={"staging.max_stages": "40"}) as broker:
        broker.until(lambda: is_read(broker))
        assert stages_of(Publisher(broker, "127.0.0.4"), "k", 20) == 10


def test_given_two_that_have_all_bytes_then_who_has_little_takes_from_who_has_most(
    tmp_path: Path,
) -> None:
    row = b"PUB a 980\r\n" + b"x" * 980 + b"\r\n"
    with serving(tmp_path, flags={"staging.max_bytes": "40KB"}) as broker:
        for host in (GREEDY, GREEDY, OTHER, OTHER):
            word = f"{host}-{len(broker.clients)}"
            Publisher(broker, host).ask(*(piece(word, 1, str(n), 0, row) for n in range(10)))
        assert staged(broker) == 40
        another = Publisher(broker, ANOTHER)
        told = another.ask(*(piece("e", 1, "all", len(row) * n, row) for n in range(9)))
        assert refused(told) == []
        batch = Batch("f", 0, 3, width=20)
        assert another.publish(batch)["rows"] == 3
        broker.until(lambda: len(list((tmp_path / "staging").glob("*.stage"))) == staged(broker))


def test_given_two_that_have_all_names_then_another_takes_the_oldest_of_who_has_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applications, "ADDRESS_KEPT", 10)
    flags = {"staging.max_applications": "40"}
    with serving(tmp_path, flags=flags) as broker:
        for host, few in ((GREEDY, "a"), (GREEDY, "b"), (OTHER, "c"), (OTHER, "d")):
            assert names(Publisher(broker, host), few, 20) == 10
        another = Publisher(broker, ANOTHER)
        first = another.publish(Batch("e", 0, 3))
        assert names(another, "f", 8) == 8
        assert another.publish(Batch("e", 0, 3)) == first | {"repeated": True}
        greedy = Publisher(broker, GREEDY)
        again = greedy.one(Batch("a9", 0, 0, stages=0).commit())
        assert isinstance(again, dict)
        assert again["repeated"], "its later ones are there"
        assert broker.server.staging is not None
        known = broker.server.staging.applications
        assert (len(known.done), known.displaced) == (40, 9)
        kept = set(known.done)
        assert "a0" not in kept
    with serving(tmp_path, flags=flags) as broker:
        repeated = Publisher(broker, ANOTHER).publish(Batch("e", 0, 3))
        assert repeated == first | {"repeated": True}
        assert broker.server.staging is not None
        assert set(broker.server.staging.applications.done) == kept, "who is forgotten stays so"


def test_given_addresses_with_few_names_each_then_they_keep_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applications, "ADDRESS_KEPT", 25)
    flags = {"staging.max_applications": "16"}
    with serving(tmp_path, flags=flags) as broker:
        for at in range(4):
            assert names(Publisher(broker, f"127.0.1.{at + 1}"), f"{at}-", 8) == 4
        assert names(Publisher(broker, ANOTHER), "f", 8) == 0
        answer = Publisher(broker, "127.0.1.1").one(Batch("0-0", 0, 0, stages=0).commit())
        assert isinstance(answer, dict)
        assert answer["repeated"]


def test_given_a_name_that_was_not_used_for_long_then_its_place_is_free(tmp_path: Path) -> None:
    flags = {"staging.max_applications": "8", "staging.application_expiry": "24h"}
    now = time.time_ns() // 1_000_000
    for hours, repeated in ((23, True), (25, False)):
        folder = tmp_path / str(hours)
        with serving(folder, flags=flags) as broker:
            Publisher(broker).publish(Batch("a", 0, 3))
        rewrite_end(folder, time=now - hours * HOUR_MS)
        with serving(folder, flags=flags) as broker:
            assert Publisher(broker).publish(Batch("a", 0, 3))["repeated"] is repeated


def test_given_one_that_has_many_commits_wait_then_another_has_its_turn_before_them(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        batches = [Batch(f"a{at}", 0, 300) for at in range(12)]
        greedy, other = Publisher(broker, GREEDY), Publisher(broker, OTHER)
        for batch in batches:
            greedy.stage(batch)
        late = Batch("b", 0, 20)
        other.stage(late)
        staging_service = broker.server.staging
        assert staging_service is not None
        engine = engine_of(broker)
        engine.epoch.held_by = 1  # as by a slow subscriber: no row is published yet
        greedy.client.send(b"".join(one.commit() for one in batches))
        broker.until(lambda: engine.state.note_watermark == 12)
        other.client.send(late.commit())
        broker.until(lambda: engine.state.note_watermark == 13)
        engine.epoch.held_by = 0
        engine.epoch.resume()
        broker.until(lambda: not staging_service.commits)
        done = staging_service.applications.done
        before = [one for one in batches if done[one.application].last < done["b"].last]
        assert before == batches[:1], "the one that had begun, and none of the others"


def test_given_two_that_have_all_places_to_wait_then_another_one_may_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sequencer.replica.batches.batch_commits.WAITING_MAX", 8)
    monkeypatch.setattr("broker.staging.stage_files.WAITING_MAX", 8)
    with serving(tmp_path) as broker:
        another = Publisher(broker, ANOTHER)
        another.one(request("BATCH", {"application": "a"}))
        staging_service = broker.server.staging
        assert staging_service is not None
        stopped = Event()
        engine_of(broker)._writer._thread.submit(stopped.wait)  # no commit ends before this does
        try:
            greedy = [Publisher(broker, host) for host in (GREEDY, GREEDY, OTHER, OTHER)]
            for at, one in enumerate(greedy):
                one.client.ask(b"".join(Batch(f"{at}-{n}", 0, 0, stages=0).commit() for n in "ab"))
            assert len(staging_service.commits) == 8
            last = Publisher(broker, OTHER).one(Batch("o", 0, 0, stages=0).commit())
            assert isinstance(last, Refused)
            another.client.send(Batch("b", 0, 0, stages=0).commit())
            broker.until(lambda: len(staging_service.commits) == 9)
        finally:
            stopped.set()
        broker.until(lambda: "b" in staging_service.applications.done)


def test_given_a_wrong_row_then_its_stage_has_no_owner_any_more(tmp_path: Path) -> None:
    with serving(tmp_path, flags={"staging.max_stages": "4"}) as broker:
        publisher = Publisher(broker)
        for _ in range(3):
            assert publisher.one(piece("app", 1, "a", 0, ROW)) == {"bytes": len(ROW), "rows": 1}
            told = publisher.one(piece("app", 1, "a", len(ROW), b"PUB $NRG.x 0\r\n\r\n"))
            assert refused([told])[0].status == 400


def test_given_one_that_has_many_commits_wait_then_others_may_wait_too(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        batches = [Batch(f"a{at}", 0, 0, stages=0) for at in range(WAITING_MAX)]
        told = publisher.ask(*(one.commit() for one in batches))
        few = WAITING_MAX // 4
        words = f"Too many commits wait: this connection has {few} of its {few}"
        assert refused(told)[0] == Refused(429, f"{words} (staging.connection_share)")
        again = publisher.ask(*(one.commit() for one in batches[:few]))
        assert refused(again) == [], "those that are done wait no more"


def test_given_one_that_waits_for_a_commit_many_times_then_others_may_wait_too(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        publisher = Publisher(broker)
        batch = Batch("a", 0, 5)
        publisher.stage(batch)
        told = publisher.ask(*[batch.commit()] * WAITERS_MAX)
        few = WAITERS_MAX // 4
        assert len(told) - len(refused(told)) == few
        assert f"this connection has {few} of its {few}" in refused(told)[0].words


def rewrite(file: Path, drop: set[str], **other: Any) -> None:
    """Bring the first line of a file into the form that another broker wrote."""
    line, _, rest = file.read_bytes().partition(b"\n")
    fields = {key: value for key, value in (unseal(line) or {}).items() if key not in drop}
    file.write_bytes(seal(fields | other) + rest)


def test_given_files_of_an_older_broker_then_their_stages_have_no_owner(tmp_path: Path) -> None:
    flags = {"staging.max_applications": "8", "staging.max_stages": "8"}
    batch = Batch("b", 0, 3)
    with serving(tmp_path, flags=flags) as broker:
        publisher = Publisher(broker)
        first = publisher.publish(Batch("a", 0, 3))
        publisher.stage(batch)
    leave_as_older(tmp_path, drop=frozenset({"address"}))
    (stage,) = (tmp_path / "staging").glob("*.stage")
    rewrite(stage, {"address", "begun"})
    with serving(tmp_path, flags=flags) as broker:
        publisher = Publisher(broker)
        assert publisher.publish(Batch("a", 0, 3)) == first | {"repeated": True}
        assert isinstance(publisher.one(batch.commit()), dict)
        assert names(publisher, "c", 8) == 1, "b is the connection's: who commits it has it"
    with serving(tmp_path, flags=flags) as broker:
        assert names(Publisher(broker), "d", 8) == 2


def staged(broker: Broker) -> int:
    assert broker.server.staging is not None
    return len(broker.server.staging.stages)


def test_given_a_byte_that_is_sent_again_and_again_then_its_stage_expires_all_the_same(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, flags={"staging.expiry": "0.3s"}) as broker:
        publisher = Publisher(broker)
        publisher.one(piece("app", 1, "a", 0, ROW))
        end = time.monotonic() + WAIT_S
        while staged(broker):
            assert time.monotonic() < end
            # No offset but 0 is right for what has expired, so this stages nothing new.
            publisher.one(piece("app", 1, "a", 1, ROW[1:]))
        assert broker.server.staging is not None
        assert broker.server.staging.stages.expired == 1


def test_given_a_stage_that_grows_for_ever_then_it_goes_when_it_is_too_old(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, flags={"staging.max_age": "0.3s"}) as broker:
        publisher, at = Publisher(broker), 0
        publisher.one(piece("app", 1, "a", 0, ROW))
        end = time.monotonic() + WAIT_S
        while staged(broker):
            assert time.monotonic() < end
            at += 1
            publisher.one(piece("app", 1, "a", at * len(ROW), ROW))


def test_given_a_stage_that_was_begun_long_ago_then_a_restart_makes_it_no_younger(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        Publisher(broker).one(piece("app", 1, "a", 0, ROW))
    (stage,) = (tmp_path / "staging").glob("*.stage")
    rewrite(stage, set(), begun=1_700_000_000_000)
    with serving(tmp_path) as broker:
        broker.until(lambda: is_read(broker))
        assert broker.server.staging is not None
        assert (staged(broker), broker.server.staging.stages.expired) == (0, 1)


def test_given_addresses_then_those_of_one_network_of_ipv6_are_one() -> None:
    assert owner_at("10.0.0.7", 3) == Owner("10.0.0.7", 3)
    assert owner_at("::ffff:10.0.0.7", 3) == Owner("10.0.0.7", 3)
    assert owner_at("2001:db8:1:2:3::4", 3) == owner_at("2001:db8:1:2::", 3)
    assert owner_at("2001:db8:1:3::", 3) != owner_at("2001:db8:1:2::", 3)
    assert owner_at("fe80::1%eth0", 3).address == "fe80::/64"
    assert owner_at(owner_at("fe80::1%eth0", 3).address, 3).address == "fe80::/64"


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.2", "2001:db8::7"])
def test_given_an_address_then_staging_counts_what_every_other_limit_counts(ip: str) -> None:
    assert owner_at(ip, 3) == Owner(network_of(ip), 3)
    assert owner_at(owner_at(ip, 3).address, 3) == owner_at(ip, 3), "the files have the network"


def test_given_what_an_older_broker_wrote_for_loopback_then_it_is_still_an_owner() -> None:
    assert owner_at("loopback", 3) == Owner("loopback", 3)


def test_given_nobody_then_there_is_no_share() -> None:
    shares = Shares(4, StagingSettings())
    shares.add(NOBODY, 100)
    assert shares.over(NOBODY, 100) == ""
    one = Owner("a", 1)
    assert shares.over(one, 1) == ""
    assert shares.over(one, 2) == "this connection has 0 of its 1 (staging.connection_share)"
    shares.add(one, 1)
    shares.add(Owner("a", 2), 1)
    assert shares.over(Owner("a", 3), 1) == "this address has 2 of its 2 (staging.address_share)"
