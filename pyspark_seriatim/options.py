"""Every option of the data source in one table: name, default, Kafka's name, and what it means.

An option is a field of `Options`, whose metadata is its documentation (option.py); parsing,
warnings and the table in docs/spark.md (`python -m pyspark_seriatim.options`) all read it.

    where   all; read (batch and stream); batch; stream; write

Names are Kafka's where the meaning is. Spark hands options over in any case, so case is ignored.
"""

import dataclasses
import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark_seriatim import values
from pyspark_seriatim.errors import OptionError
from pyspark_seriatim.option import option, read_option, table_line
from pyspark_seriatim.values import EARLIEST, LATEST, NUMBER_MAX, TIME_MS_MAX, Position, Server

log = logging.getLogger("pyspark_seriatim")

DAY_MS: Final = 86_400_000
KIB, MIB = 1 << 10, 1 << 20
PLACES: Final = {  # what is done -> where its options are from
    "batch": ("all", "read", "batch"),
    "stream": ("all", "read", "stream"),
    "write": ("all", "write"),
}
# Spark puts these among the options by itself.
SPARKS_OWN: Final = {"checkpointlocation", "queryname", "outputmode", "mode"}
HEADINGS: Final = {
    "all": "Connection (reading and writing)",
    "read": "Reading, batch and stream",
    "batch": "Reading as a batch",
    "stream": "Reading as a stream",
    "write": "Writing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user wants, checked; `where` is batch, stream or write. Can be pickled."""

    where: str = "batch"

    servers: tuple[Server, ...] = option(
        "servers",
        "servers",
        (),
        "The brokers' addresses: `host:port[,host:port]`, or `nats://user:password@host:port`."
        " They are tried in this order. `tls://` asks for TLS.",
        kafka="kafka.bootstrap.servers",
        shown="required",
    )
    user: str = option(
        "user", "text", "", "Who connects. Better here than in an address: Spark shows addresses."
    )
    password: str = option("password", "secret", "", "The password of `user`.")
    token: str = option("token", "secret", "", "A token, in place of user and password.")
    credentials_file: str = option(
        "credentialsFile",
        "file",
        "",
        "A NATS credentials file (`.creds`), on every machine of the cluster. Needs the package"
        " `nkeys`.",
    )
    tls_ca_file: str = option(
        "tlsCaFile",
        "file",
        "",
        "CA certificates (PEM) to check the broker's certificate with. When given, only TLS is"
        " spoken. By default the system's.",
        kafka="kafka.ssl.truststore.location",
    )
    tls_cert_file: str = option(
        "tlsCertFile",
        "file",
        "",
        "Our own certificate (PEM), where the broker wants one. When given, only TLS is spoken.",
        kafka="kafka.ssl.keystore.location",
    )
    tls_key_file: str = option(
        "tlsKeyFile", "file", "", "The key of `tlsCertFile`, if that file does not hold it."
    )
    tls_handshake_first: bool = option(
        "tlsHandshakeFirst",
        "flag",
        False,
        "Begin with TLS, before the broker's INFO: for brokers with `handshake_first`.",
    )
    connect_timeout_ms: int = option(
        "connectTimeoutMs",
        "ms",
        5_000,
        "How long connecting to one address may take.",
        kafka="kafka.socket.connection.setup.timeout.ms",
        bounds=(1, DAY_MS),
    )
    request_timeout_ms: int = option(
        "requestTimeoutMs",
        "ms",
        30_000,
        "How long nothing may be heard of a request before the connection counts as broken.",
        kafka="kafka.request.timeout.ms",
        bounds=(1, DAY_MS),
    )
    num_retries: int = option(
        "fetchOffset.numRetries",
        "count",
        3,
        "How often something is asked again, of all addresses, after a connection failed. What"
        " was read is not read again, and the count starts again with every answer.",
        kafka="fetchOffset.numRetries",
        bounds=(0, 1_000_000),
    )
    retry_interval_ms: int = option(
        "fetchOffset.retryIntervalMs",
        "ms",
        1_000,
        "The pause before asking again.",
        kafka="fetchOffset.retryIntervalMs",
        bounds=(0, DAY_MS),
    )

    subscribe: tuple[str, ...] = option(
        "subscribe",
        "subjects",
        (">",),
        "Which subjects: a list with commas, with NATS' wildcards. The broker filters.",
        where="read",
        kafka="subscribe",
    )
    subscribe_pattern: str = option(
        "subscribePattern",
        "pattern",
        "",
        "A regular expression (Python's) that the whole subject must match. Filtered in the"
        " readers, so what does not match is sent all the same: give `subscribe` as well.",
        where="read",
        kafka="subscribePattern",
    )
    starting_offsets: str | Position = option(  # noqa: RUF009
        "startingOffsets",
        "position",
        "",
        "Where to begin: `earliest`, `latest`, a number, or an offset as Spark shows it,"
        ' `{"journal":"...","sequence":7}`. Of a stream only at its first start.',
        where="read",
        kafka="startingOffsets",
        choices=(EARLIEST, LATEST),
        shown="batch `earliest`, stream `latest`",
    )
    ending_offsets: str | Position = option(  # noqa: RUF009
        "endingOffsets",
        "position",
        LATEST,
        "Where to end, before this number: `latest`, a number, or an offset.",
        where="batch",
        kafka="endingOffsets",
        choices=(LATEST,),
    )
    starting_timestamp: int = option(
        "startingTimestamp",
        "count",
        -1,
        "Begin with the first message at or after this time, in ms since 1970, and at the head"
        " if there is none. Wins over `startingOffsets`.",
        where="read",
        kafka="startingTimestamp",
        bounds=(0, TIME_MS_MAX),
        shown="none",
    )
    ending_timestamp: int = option(
        "endingTimestamp",
        "count",
        -1,
        "End before the first message at or after this time. Wins over `endingOffsets`.",
        where="batch",
        kafka="endingTimestamp",
        bounds=(0, TIME_MS_MAX),
        shown="none",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        "flag",
        True,
        "Whether numbers that are not there any more, or another journal, fail the query. If"
        " not, a warning is logged, and reading goes on with what is there.",
        where="read",
        kafka="failOnDataLoss",
    )
    include_headers: bool = option(
        "includeHeaders",
        "flag",
        False,
        "Adds the column `headers`, map<string, array<string>>; empty where there are none.",
        where="read",
        kafka="includeHeaders",
    )
    include_reply: bool = option(
        "includeReply",
        "flag",
        False,
        "Adds the column `reply`, the reply subject; null where there is none.",
        where="read",
    )
    min_partitions: int = option(
        "minPartitions",
        "count",
        1,
        "How many tasks to read with, at least; fewer where a task would have less than 50 000"
        " numbers.",
        where="read",
        kafka="minPartitions",
        bounds=(1, 100_000),
    )
    max_records_per_partition: int = option(
        "maxRecordsPerPartition",
        "count",
        0,
        "How many numbers one task reads at most.",
        where="read",
        kafka="maxRecordsPerPartition",
        shown="none",
    )
    fetch_rows: int = option(
        "fetchRows",
        "count",
        32_768,
        "Rows of one Arrow batch, at most.",
        where="read",
        kafka="kafka.max.poll.records",
        bounds=(1, 1 << 20),
    )
    fetch_bytes: int = option(
        "fetchBytes",
        "bytes",
        8 * MIB,
        "Bytes of one Arrow batch, about. One message that is longer comes by itself.",
        where="read",
        kafka="kafka.fetch.max.bytes",
        bounds=(4 * KIB, 256 * MIB),
        shown="8m",
    )
    push_down_filters: bool = option(
        "pushDownFilters",
        "flag",
        False,
        "Let the filters of a query on `sequence`, `timestamp` and `subject` narrow what is"
        " read. Needs `spark.sql.python.filterPushdown.enabled=true`, or the query fails.",
        where="batch",
    )
    max_offsets_per_trigger: int = option(
        "maxOffsetsPerTrigger",
        "count",
        0,
        "How many numbers one micro-batch takes at most. 250 000 to 500 000 is a good choice.",
        where="stream",
        kafka="maxOffsetsPerTrigger",
        shown="none",
    )
    min_offsets_per_trigger: int = option(
        "minOffsetsPerTrigger",
        "count",
        0,
        "Wait for this many numbers before a micro-batch. Not under Trigger.AvailableNow.",
        where="stream",
        kafka="minOffsetsPerTrigger",
        shown="none",
    )
    max_trigger_delay: int = option(
        "maxTriggerDelay",
        "ms",
        900_000,
        "How long `minOffsetsPerTrigger` may wait.",
        where="stream",
        kafka="maxTriggerDelay",
        shown="15m",
    )

    subject: str = option(
        "subject",
        "subject",
        "",
        "The subject of all rows; wins over the column `subject`.",
        where="write",
        kafka="topic",
    )
    delivery_guarantee: str = option(
        "deliveryGuarantee",
        "choice",
        "exactly-once",
        "`exactly-once`: the rows of a batch are staged, and published when all of them are"
        " there. `at-least-once`: published at once, and again when a task or a batch is.",
        where="write",
        kafka="(at least once only)",
        choices=("exactly-once", "at-least-once"),
    )
    txn_app_id: str = option(
        "txnAppId",
        "text",
        "",
        "Whose batches are counted. For batch writes that may be repeated; with `txnVersion`.",
        where="write",
        bounds=(1, 255),
        shown="stream: the query's id; batch: a random one",
    )
    txn_version: int = option(
        "txnVersion",
        "count",
        -1,
        "Which batch of `txnAppId` this is; one that is not above the last is not published"
        " again. Not in a stream, which counts by itself.",
        where="write",
        bounds=(0, NUMBER_MAX),
        shown="stream: the batch's id",
    )
    publish_batch_bytes: int = option(
        "publishBatchBytes",
        "bytes",
        MIB,
        "Bytes sent in one piece; cut to what the broker takes.",
        where="write",
        kafka="kafka.batch.size",
        bounds=(KIB, 64 * MIB),
        shown="1m",
    )
    publish_window: int = option(
        "publishWindow",
        "count",
        4,
        "Pieces on their way before the first of them is answered.",
        where="write",
        kafka="kafka.max.in.flight.requests.per.connection",
        bounds=(1, 64),
    )
    ack_timeout_ms: int = option(
        "ackTimeoutMs",
        "ms",
        120_000,
        "How long one piece, or the commit, is asked for: over broken connections, and while"
        " the journal is full.",
        where="write",
        kafka="kafka.delivery.timeout.ms",
        bounds=(1, DAY_MS),
    )

    @classmethod
    def parse(cls, given: Mapping[str, str], where: str) -> "Options":
        """The options of a read or a write. Raises `OptionError`; logs what is not known."""
        known = {field.metadata["name"].lower(): field for field in FIELDS}
        found: dict[str, Any] = {"where": where}
        for name, text in given.items():
            field = known.get(name.lower())
            if field is None:
                _warn_unknown(name, [field.metadata["name"] for field in FIELDS])
            elif _is_meant(field, where):
                found[field.name] = read_option(field, str(text))
        made = cls(**found)
        made._check()
        if made.starting_offsets == "":
            default = LATEST if where == "stream" else EARLIEST
            made = dataclasses.replace(made, starting_offsets=default)
        return made

    @classmethod
    def flag(cls, given: Mapping[str, str], name: str) -> bool:
        """One option that is true or false, when nothing is known of the others yet."""
        field = next(field for field in FIELDS if field.metadata["name"] == name)
        texts = [text for key, text in given.items() if key.lower() == name.lower()]
        return bool(read_option(field, str(texts[0]))) if texts else bool(field.default)

    def _check(self) -> None:
        """What does not go together. Raises `OptionError`."""
        if not self.servers:
            raise OptionError(f"servers: the option is missing; give {values.ADDRESSES}")
        if self.password and not self.user:
            raise OptionError("password: there is no user; give the option user as well")
        if self.token and self.user:
            raise OptionError("token: there is a user as well; give either of them")
        if self.tls_key_file and not self.tls_cert_file:
            raise OptionError("tlsKeyFile: it needs tlsCertFile, the certificate it belongs to")
        start, end = self.starting_offsets, self.ending_offsets
        timed = self.starting_timestamp >= 0 or self.ending_timestamp >= 0
        if isinstance(start, Position) and isinstance(end, Position) and not timed:
            _in_order("endingOffsets", end.sequence, "startingOffsets", start.sequence)
        if self.ending_timestamp >= 0:
            ending, starting = self.ending_timestamp, self.starting_timestamp
            _in_order("endingTimestamp", ending, "startingTimestamp", starting)
        most = self.max_offsets_per_trigger
        if most and self.min_offsets_per_trigger > most:
            least = self.min_offsets_per_trigger
            raise OptionError(
                f"minOffsetsPerTrigger: {least} is above maxOffsetsPerTrigger, {most}"
            )


FIELDS: Final = tuple(field for field in dataclasses.fields(Options) if field.metadata)


def _in_order(end: str, ending: int, start: str, starting: int) -> None:
    if ending < starting:
        raise OptionError(f"{end}: {ending} is below {start}, {starting}")


def _is_meant(field: "dataclasses.Field[Any]", where: str) -> bool:
    """Whether an option counts here. If not that is logged, or refused where it would mislead."""
    name = field.metadata["name"]
    if field.metadata["where"] in PLACES[where]:
        return True
    if where == "stream" and name.startswith("ending"):
        raise OptionError(f"{name}: a stream has no end; read a batch, or use Trigger.AvailableNow")
    log.warning("option %s has no meaning for %s, and is ignored", name, _doing(where))
    return False


def _doing(where: str) -> str:
    return "writing" if where == "write" else f"reading a {where}"


def _warn_unknown(name: str, known: list[str]) -> None:
    if name.lower() in SPARKS_OWN:
        return
    lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    hint = f"; is {lower[close[0]]} meant?" if close else ""
    log.warning("option %s is not known, and is ignored%s", name, hint)


def tables(*places: str) -> str:
    """The options as Markdown: a table for each of `places`, with Kafka's names beside."""
    lines: list[str] = []
    for where in places or HEADINGS:
        lines += [f"**{HEADINGS[where]}**", "", "| option | default | | Kafka's |"]
        lines.append("|---|---|---|---|")
        lines += [table_line(field) for field in FIELDS if field.metadata["where"] == where]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables())
