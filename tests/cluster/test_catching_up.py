"""Members that come later, or come again: they get what the others have."""

from pathlib import Path

from sequencer.journal import Reader
from sequencer.journal.header import stem
from tests.cluster.cluster_peers import replayed
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, QUIET, RawClient


class GrownCluster(ClusterOf):
    """Two members; the first one was a broker of its own before."""

    def start(self) -> None:
        """Publish at the broker, twice started; then make it a cluster, and start both."""
        store = self.folder / "store-0"
        for part in (b"one", b"two"):
            broker = SeriatimServer(store=store, frame="netstring")
            with broker, RawClient(broker.port) as client:
                client.ask(QUIET + b"PUB orders.%b 3\r\n%b\r\n" % (part, part) * 100)
        super().start()


def test_given_the_store_of_one_broker_when_others_join_then_all_have_all_of_it() -> None:
    with GrownCluster(2) as cluster:
        found = [replayed(member.port, 200) for member in cluster.members]
    assert [one.subject for one in found[0][::100]] == [
        b"orders.one",
        b"orders.two",
        b"$SEQ.END.200",
    ]
    assert found[0] == found[1]


def test_given_too_few_members_then_what_was_committed_is_served_and_read_and_nothing_else() -> (
    None
):
    with ClusterOf(2) as cluster:
        first, second = cluster.members
        store = str(cluster.folder / "store-0")
        with RawClient(first.port) as client:
            client.ask(QUIET + b"PUB orders.new 3\r\none\r\n" * 10)
        assert len(replayed(second.port, 10)) == 11

        # When: the second member dies, and the coordinator takes messages that nobody may see
        second.kill()
        with RawClient(first.port) as client, RawClient(first.port, HEADERS) as asker:
            client.send(QUIET + b"PUB orders.new 3\r\ntwo\r\n" * 5)
            while Path(store).joinpath(f"{stem(1)}.segment").read_bytes().count(b"two") < 5:
                assert first.pid  # it lives, and writes them soon
            asker.send(b"SUB _INBOX.1 1\r\nPUB $SEQ.GET.10 _INBOX.1 0\r\n\r\n")
            assert b"one" in asker.operation().payload
            asker.send(b"PUB $SEQ.LAST.orders.new _INBOX.1 0\r\n\r\n")
            assert b"\r\nNats-Sequence: 10\r\n" in asker.operation().header
            asker.send(b"PUB $SEQ.GET.12 _INBOX.1 0\r\n\r\n")
            assert b"404" in asker.operation().header, "it was waited for, in vain"

            # Then: other readers of its files see what is committed
            assert Reader(store).bounds() == (1, 10)
            assert len(list(Reader(store).records())) == 10

        # Then: a coordinator that starts again, alone, shows that much
        first.kill()
        first.start(first.port)
        assert len(replayed(first.port, 10)) == 11
        assert Reader(store).bounds() == (1, 10)

        # And: with the second one it commits what it has
        second.start(second.port)
        assert len(replayed(second.port, 15)) == 16
        assert replayed(first.port, 15) == replayed(second.port, 15)
        for member in cluster.members:
            with RawClient(member.port, HEADERS) as asker:
                asker.send(b"SUB _INBOX.1 1\r\nPUB $SEQ.LAST.orders.new _INBOX.1 0\r\n\r\n")
                assert b"\r\nNats-Sequence: 15\r\n" in asker.operation().header
