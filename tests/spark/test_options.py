"""Options that no other test with Spark uses: credentials, times, sizes, and deleted messages."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_seriatim.client import Client
from pyspark_seriatim.options import Options
from pyspark_seriatim.spark_connection import SparkConnection
from seriatim.client.protocol import PongReceived
from seriatim.client.stream_message import Message
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.raw import QUIET, RawClient
from tests.support.readable import is_readable
from tests.support.relay import Relay
from tests.support.secured import Vouching, make_certificates, nats_server, tls

Publish = Callable[..., None]
SECONDS_MAX = 120
NUMBERED = "'rows' subject", "cast(cast(id as string) as binary) payload"


def read(spark: SparkSession, servers: object, **given: object) -> DataFrame:
    """A batch from a broker at a port of this machine, or at these addresses."""
    where = servers if isinstance(servers, str) else f"127.0.0.1:{servers}"
    texts = {name.replace("__", "."): str(value) for name, value in given.items()}
    return spark.read.format("seriatim").option("servers", where).options(**texts).load()


# Who we are


def written(spark: SparkSession, server: ServerProcess, **given: object) -> list[bytes]:
    """What arrives at a NATS server of twenty rows that two tasks write."""
    texts = {name: str(value) for name, value in given.items()}
    texts["servers"] = f"localhost:{server.port}"
    ear = SparkConnection.open(Options.parse(texts, "batch"))
    ear.send(b"SUB rows 7\r\n")
    ear.flush()
    frame = spark.range(0, 20, 1, 2).selectExpr(*NUMBERED)
    writer = frame.write.format("seriatim").mode("append").options(**texts)
    writer.option("deliveryGuarantee", "at-least-once").save()
    heard: list[bytes] = []
    ear.send(b"PING\r\n")
    ear._expect(SECONDS_MAX)
    while not isinstance(event := ear._event(), PongReceived):
        if isinstance(event, Message):  # not the server's own PING
            heard.append(bytes(event.payload))
    ear.close()
    return sorted(heard, key=int)


def test_given_a_broker_that_asks_who_we_are_when_written_to_then_every_task_says_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    wanted = [b"%d" % n for n in range(20)]
    certificates = make_certificates(tmp_path)
    own = certificates / "client.pem"
    more = f', verify: true, handshake_first: true, ca_file: "{own}", timeout: 60'
    config = tls(certificates, more)
    config += 'authorization { user: me, password: "s3cret", timeout: 60 }\n'
    given: dict[str, Any] = {
        "tlsCaFile": certificates / "server.pem",
        "tlsCertFile": own,
        "tlsKeyFile": certificates / "client.key",
        "tlsHandshakeFirst": "true",
        "user": "me",
        "password": "s3cret",
    }
    with nats_server(tmp_path, config) as server:
        assert written(spark, server, **given) == wanted
        frame = spark.range(1).selectExpr(*NUMBERED).write.format("seriatim").mode("append")
        frame = frame.option("servers", f"localhost:{server.port}").options(**given)
        frame = frame.option("deliveryGuarantee", "at-least-once").option("password", "n0pe")
        with pytest.raises(PySparkException, match="refuses the login") as refused:
            frame.save()
        assert "n0pe" not in str(refused.value)
    with nats_server(tmp_path, 'authorization { token: "t0ken", timeout: 60 }') as server:
        assert written(spark, server, token="t0ken") == wanted


def test_given_a_credentials_file_when_written_then_every_task_signs_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    nkeys = pytest.importorskip("nkeys", reason="credentialsFile needs it, and nothing else does")
    vouching = Vouching(nkeys)
    path = vouching.credentials(tmp_path / "user.creds", vouching.account)
    with nats_server(tmp_path, vouching.config) as server:
        found = written(spark, server, credentialsFile=path)
    assert found == [b"%d" % n for n in range(20)]


# How long is waited


CONNECTING_S = 5.0  # by itself


@contextlib.contextmanager
def listener(patience: float) -> Iterator[tuple[int, list[bool]]]:
    """Listen, say nothing, and hang up after `patience` seconds; yield the port, and who waited."""
    waited: list[bool] = []
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=attend, args=(client,), daemon=True).start()

    def attend(client: socket.socket) -> None:
        with client:
            has_left = is_readable(client, patience)
            waited.append(not has_left)  # before it is hung up on, and goes on

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1], waited
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_given_times_and_counts_of_retries_when_read_then_they_are_kept_to(
    spark: SparkSession, broker: SeriatimServer, publish: Publish
) -> None:
    publish([b"x"] * 200)
    woken = threading.Event()
    given = {"connectTimeoutMs": 60_000, "requestTimeoutMs": 5000, "fetchOffset__numRetries": 3}
    with listener(CONNECTING_S + 1) as (silent, waited), Relay(broker.port) as relay:
        relay.when(b"$SEQ.READ", before=lambda: woken.wait(10 * SECONDS_MAX))
        servers = f"127.0.0.1:{silent},127.0.0.1:{relay.port}"
        begun = time.monotonic()
        assert read(spark, servers, **given, fetchOffset__retryIntervalMs=10).count() == 200
        assert time.monotonic() - begun < 5 * SECONDS_MAX, "the task has asked again, not waited"
        woken.set()
        assert len(waited) >= 2, "the driver's, and the task's"
        assert all(waited), "connectTimeoutMs is 5 s by itself, and these waited for longer"
    with listener(0) as (closed, came):
        with pytest.raises(PySparkException, match="closed the connection"):
            read(spark, closed, fetchOffset__retryIntervalMs=10, fetchOffset__numRetries=2).count()
        assert len(came) == 3


# What is read


def test_given_times_sizes_and_parts_when_read_then_they_are_kept_to(
    spark: SparkSession, broker: SeriatimServer, publish: Publish
) -> None:
    moments = []
    for count in (100, 200, 100_000):
        publish([b"x" * 100] * count)
        time.sleep(0.05)  # no event to await: times are apart
        moments.append(int(time.time() * 1000))
        time.sleep(0.05)  # no event to await: times are apart
    between = read(
        spark,
        broker.port,
        startingTimestamp=moments[0],
        endingTimestamp=moments[1],
        fetchBytes="4k",
    )
    found = sorted(row.sequence for row in between.select("sequence").collect())
    assert found == list(range(101, 301))
    assert read(spark, broker.port, startingTimestamp=moments[2]).count() == 0
    parts = read(spark, broker.port, minPartitions=2).select("sequence")
    assert parts.rdd.getNumPartitions() == 2
    assert parts.count() == 100_300
    assert read(spark, broker.port, minPartitions=9, endingOffsets=100).rdd.getNumPartitions() == 1


class Streams:
    """Queries on one checkpoint, and how many rows each batch had, and when."""

    def __init__(self, spark: SparkSession, broker: SeriatimServer, checkpoint: Path) -> None:
        self.spark, self.broker, self.checkpoint = spark, broker, checkpoint
        self.sizes: list[int] = []
        self.times: list[float] = []
        self.running: Any = None

    @contextlib.contextmanager
    def query(self, before: Callable[[], None] | None = None, **given: object) -> Iterator[Any]:
        """A query that runs meanwhile; `before` is done when a batch is planned, and not read."""

        def take(frame: DataFrame, batch: int) -> None:
            if before is not None:
                before()
            self.sizes.append(frame.count())
            self.times.append(time.monotonic())

        reader = self.spark.readStream.format("seriatim")
        reader = reader.option("servers", f"127.0.0.1:{self.broker.port}")
        reader = reader.options(**{name: str(value) for name, value in given.items()})
        writer = reader.load().writeStream.foreachBatch(take)
        self.running = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            yield self.running
        finally:
            self.running.stop()

    def await_rows(self, count: int) -> None:
        until = time.monotonic() + SECONDS_MAX
        while sum(self.sizes) < count:
            assert self.running.exception() is None
            assert time.monotonic() < until, self.sizes
            time.sleep(0.02)  # no event to await: it is asked for


def test_given_a_least_of_a_batch_when_a_stream_reads_then_it_waits_but_not_for_ever(
    spark: SparkSession, broker: SeriatimServer, publish: Publish, tmp_path: Path
) -> None:
    publish([b"old"] * 10)
    time.sleep(0.05)  # no event to await: times are apart
    moment = int(time.time() * 1000)
    time.sleep(0.05)  # no event to await: times are apart
    streams = Streams(spark, broker, tmp_path / "checkpoint")
    publish([b"x"] * 100)
    with streams.query(
        startingTimestamp=moment, minOffsetsPerTrigger=100, maxTriggerDelay="1h"
    ) as query:
        streams.await_rows(100)
        publish([b"x"] * 60)
        query.processAllAvailable()
        time.sleep(0.5)  # no event to await: nothing is to happen
        publish([b"x"] * 60)
        streams.await_rows(220)
        query.processAllAvailable()  # else it is stopped amid the batch, and begins with it again
    assert [size for size in streams.sizes if size] == [100, 120]
    begun = time.monotonic()
    with streams.query(minOffsetsPerTrigger=100, maxTriggerDelay="5s"):
        publish([b"x"])
        streams.await_rows(221)
        publish([b"x"])
        streams.await_rows(222)
    # Counted from where the first batch is planned, which is behind the start of the query.
    assert streams.times[-1] - begun > 5


# What is deleted meanwhile

KEPT_BYTES = 256 << 10
KEPT = ["--segment_bytes", "64KiB", "--retain_bytes", str(KEPT_BYTES)]
ROW = b"PUB orders.eu 1000\r\n%b\r\n" % bytes(1000)
More = Callable[[int], tuple[int, int]]


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[SeriatimServer]:
    """A broker that keeps a quarter of a megabyte."""
    with SeriatimServer("netstring", arguments=KEPT, store=tmp_path / "journal") as server:
        yield server


@pytest.fixture
def more(forgetful: SeriatimServer) -> More:
    """Publish so many rows of a kilobyte, and see old ones go; which are there then."""
    options = Options.parse({"servers": f"127.0.0.1:{forgetful.port}"}, "batch")

    def put(count: int) -> tuple[int, int]:
        with RawClient(forgetful.port, QUIET) as client:
            for _ in range(count // 20):  # at once, more would go than must
                assert client.ask(ROW * 20) == []
        until = time.monotonic() + SECONDS_MAX
        with contextlib.closing(Client(options)) as client:
            info = client.info()
            while info.bytes > KEPT_BYTES:  # then no more goes
                assert time.monotonic() < until, "nothing was deleted"
                time.sleep(0.02)  # no event to await: it is asked for
                info = client.info()
        return info.first, info.last

    return put


def test_given_numbers_deleted_before_a_task_reads_then_it_fails_or_reads_what_is_there(
    spark: SparkSession, forgetful: SeriatimServer, more: More
) -> None:
    first, last = more(500)
    given: dict[str, Any] = {"maxRecordsPerPartition": 20, "startingOffsets": first}
    strict, lenient = (
        read(spark, forgetful.port, **given, failOnDataLoss=loss).select("sequence").rdd
        for loss in ("true", "false")
    )
    assert strict.getNumPartitions() == lenient.getNumPartitions() >= 3
    kept, _ = more(80)
    assert first < kept <= last, "some are gone"
    with pytest.raises(Exception, match=r"DataLost: \d+ to \d+ of journal \S+ are lost: del"):
        strict.collect()
    assert sorted(row.sequence for row in lenient.collect()) == list(range(kept, last + 1))


def test_given_numbers_deleted_while_a_stream_reads_then_it_fails_or_goes_on(
    spark: SparkSession, forgetful: SeriatimServer, more: More, tmp_path: Path
) -> None:
    streams = Streams(spark, forgetful, tmp_path / "checkpoint")
    first, _ = more(500)
    there: list[tuple[int, int]] = []

    def delete() -> None:
        if not there:
            there.append(more(300))

    given: dict[str, Any] = {"startingOffsets": first, "maxOffsetsPerTrigger": 100}
    with (
        streams.query(delete, **given) as query,
        pytest.raises(StreamingQueryException, match=r"DataLost.*are lost: deleted"),
    ):
        query.awaitTermination(SECONDS_MAX)
    assert streams.sizes == []
    there.clear()
    with streams.query(delete, **given, failOnDataLoss="false") as query:
        query.processAllAvailable()
    kept, last = there[0]
    assert streams.sizes[0] == 0
    assert sum(streams.sizes) == last - kept + 1, "it has gone on with what is there"
