"""What the parts of a broker share: holding publishers, and serving waiting readers."""

from pathlib import Path

from tests.support.serving import serving


class Publisher:
    """One that a subscriber may hold."""

    held_by = 0

    def resume(self) -> None:
        raise AssertionError("nobody has drained")


def test_given_no_journal_then_there_is_no_store_no_replays_and_no_keeper(tmp_path: Path) -> None:
    flags = {"journal.enabled": "false", "journal.ring_bytes": "0"}
    with serving(tmp_path, flags=flags) as broker:
        core = broker.server.core
        assert (core.journal, core.replays, core.keeper) == (None, None, None)
        core.advance()


def test_given_a_number_that_one_waits_for_when_it_is_given_then_it_is_served(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        core, client = broker.server.core, broker.client()
        client.ask(b"SUB $SEQ.RANGE.1.1.a 1\r\n")
        assert core.replays is not None
        assert core.replays.waits
        client.publish(b"a", b"x")
        core.advance()
        broker.until(lambda: not core.replays.waits)
        assert [one.payload for one in client.ask(b"")][:1] == [b"8:1:1,1:x,,"]


def test_given_a_crowded_subscriber_then_it_holds_a_publisher_for_hold_ms(tmp_path: Path) -> None:
    with serving(tmp_path, flags={"limits.hold_ms": "60000"}) as broker:
        core, client = broker.server.core, broker.client()
        client.ask(b"SUB a 1\r\n")
        (session,) = broker.server.sessions.values()
        session.connection.writable = False
        core.plane.gate.crowded.append(session.connection)
        publisher = Publisher()
        core.hold(publisher)
        assert publisher.held_by == 1
        session.connection.writable = True
