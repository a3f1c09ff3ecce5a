"""Every option of the data source in one table: name, default, Kafka's name, and meaning.

An option is a setting of the data source: a field of `Options` (option_kinds.py). The parser, the
warnings and the table in docs/spark.md (`python -m pyspark_seriatim.options`) all read it.

    where   all; read (batch and stream); batch; stream; write

Options with the meaning of one of Kafka's have its name. Spark does not preserve the case of
options, so case is ignored.
"""

import dataclasses
import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark_seriatim import values
from pyspark_seriatim.errors import OptionError
from pyspark_seriatim.option_kinds import SparkSetting, settings_of
from pyspark_seriatim.values import EARLIEST, LATEST, NUMBER_MAX, TIME_MS_MAX, Position
from seriatim.client.server_address import ServerAddress
from seriatim.settings.setting import KIB, MIB, setting

log = logging.getLogger("pyspark_seriatim")

DAY_MS: Final = 86_400_000
PLACES: Final = {  # operation -> the kinds of options it uses
    "batch": ("all", "read", "batch"),
    "stream": ("all", "read", "stream"),
    "write": ("all", "write"),
}
# Spark itself adds these to the options.
SPARKS_OWN: Final = {"checkpointlocation", "queryname", "outputmode", "mode"}
NO_OPTIONS: Final[Mapping[str, str]] = {}
HEADINGS: Final = {
    "all": "Connection (reading and writing)",
    "read": "Reading, batch and stream",
    "batch": "Reading as a batch",
    "stream": "Reading as a stream",
    "write": "Writing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The checked options; `where` is batch, stream or write. Can be pickled."""

    where: str = "batch"

    servers: tuple[ServerAddress, ...] = setting(
        (),
        "servers",
        "The brokers' addresses: `host:port[,host:port]`, or `nats://user:password@host:port`."
        " They are tried in this order. `tls://` demands TLS.",
        name="servers",
        kafka="kafka.bootstrap.servers",
        shown="required",
    )
    user: str = setting(
        "",
        "text",
        "The user name. Better here than in an address, because Spark shows addresses.",
        name="user",
    )
    password: str = setting(
        "",
        "secret",
        "The password of `user`.",
        name="password",
    )
    token: str = setting(
        "",
        "secret",
        "A token, instead of user and password.",
        name="token",
    )
    credentials_file: str = setting(
        "",
        "file",
        "A NATS credentials file (`.creds`), at the same path on every machine of the cluster."
        " Needs the package `nkeys`.",
        name="credentialsFile",
    )
    nkey_file: str = setting(
        "",
        "file",
        "A file with the seed of an nkey, at the same path on every machine of the cluster. Needs"
        " the package `nkeys`.",
        name="nkeyFile",
    )
    inbox_prefix: str = setting(
        "_INBOX",
        "subject",
        "Where the broker's answers come, for a user who may not subscribe to `_INBOX.>`.",
        name="inboxPrefix",
    )
    tls_ca_file: str = setting(
        "",
        "file",
        "CA certificates (PEM) to check the broker's certificate with; by default the system's. If"
        " given, the connection must use TLS.",
        name="tlsCaFile",
        kafka="kafka.ssl.truststore.location",
    )
    tls_cert_file: str = setting(
        "",
        "file",
        "The client's certificate (PEM), if the broker asks for one. If given, the connection must"
        " use TLS.",
        name="tlsCertFile",
        kafka="kafka.ssl.keystore.location",
    )
    tls_key_file: str = setting(
        "",
        "file",
        "The key of `tlsCertFile`, if that file does not contain it.",
        name="tlsKeyFile",
    )
    tls_handshake_first: bool = setting(
        False,
        "flag",
        "Start with TLS, before the broker's INFO: for brokers with `handshake_first`.",
        name="tlsHandshakeFirst",
    )
    connect_timeout_ms: int = setting(
        5_000,
        "ms",
        "How long connecting to one address may take.",
        name="connectTimeoutMs",
        kafka="kafka.socket.connection.setup.timeout.ms",
        bounds=(1, DAY_MS),
    )
    request_timeout_ms: int = setting(
        30_000,
        "ms",
        "How long a request may get no data before the connection counts as broken.",
        name="requestTimeoutMs",
        kafka="kafka.request.timeout.ms",
        bounds=(1, DAY_MS),
    )
    num_retries: int = setting(
        3,
        "count",
        "How many times a request is repeated, at all addresses, after a connection failed. What"
        " was read is not read again, and the count starts again with every answer.",
        name="fetchOffset.numRetries",
        kafka="fetchOffset.numRetries",
        bounds=(0, 1_000_000),
    )
    retry_interval_ms: int = setting(
        1_000,
        "ms",
        "The pause before a request is repeated.",
        name="fetchOffset.retryIntervalMs",
        kafka="fetchOffset.retryIntervalMs",
        bounds=(0, DAY_MS),
    )

    subscribe: tuple[str, ...] = setting(
        (">",),
        "subjects",
        "Which subjects: a list separated by commas, with NATS' wildcards. The broker filters.",
        name="subscribe",
        where="read",
        kafka="subscribe",
    )
    subscribe_pattern: str = setting(
        "",
        "regex",
        "A regular expression (Python's) that must match the whole subject. The readers filter, so"
        " all messages are sent to them: give `subscribe` as well.",
        name="subscribePattern",
        where="read",
        kafka="subscribePattern",
    )
    starting_offsets: str | Position = setting(  # noqa: RUF009
        "",
        "position",
        "Where to start: `earliest`, `latest`, a number, or an offset as Spark shows it,"
        ' `{"journal":"...","sequence":7}`. A stream uses it only at its first start.',
        name="startingOffsets",
        where="read",
        kafka="startingOffsets",
        choices=(EARLIEST, LATEST),
        shown="batch `earliest`, stream `latest`",
    )
    ending_offsets: str | Position = setting(  # noqa: RUF009
        LATEST,
        "position",
        "Where to end, before this number: `latest`, a number, or an offset.",
        name="endingOffsets",
        where="batch",
        kafka="endingOffsets",
        choices=(LATEST,),
    )
    starting_timestamp: int = setting(
        -1,
        "count",
        "Start with the first message at or after this time, in ms since 1970, or at the head if"
        " there is none. Overrides `startingOffsets`.",
        name="startingTimestamp",
        where="read",
        kafka="startingTimestamp",
        bounds=(0, TIME_MS_MAX),
        shown="none",
    )
    ending_timestamp: int = setting(
        -1,
        "count",
        "End before the first message at or after this time. Overrides `endingOffsets`.",
        name="endingTimestamp",
        where="batch",
        kafka="endingTimestamp",
        bounds=(0, TIME_MS_MAX),
        shown="none",
    )
    fail_on_data_loss: bool = setting(
        True,
        "flag",
        "Whether the query fails if numbers are not there any more, or the journal is another one."
        " If not, a warning is logged, and reading continues with what is there.",
        name="failOnDataLoss",
        where="read",
        kafka="failOnDataLoss",
    )
    include_headers: bool = setting(
        False,
        "flag",
        "Adds the column `headers`, map<string, array<string>>; empty if the message has none.",
        name="includeHeaders",
        where="read",
        kafka="includeHeaders",
    )
    include_reply: bool = setting(
        False,
        "flag",
        "Adds the column `reply`, the reply subject; null if the message has none.",
        name="includeReply",
        where="read",
    )
    min_partitions: int = setting(
        1,
        "count",
        "How many tasks read, at least. Fewer are used if a task would have less than 50 000"
        " numbers.",
        name="minPartitions",
        where="read",
        kafka="minPartitions",
        bounds=(1, 100_000),
    )
    max_records_per_partition: int = setting(
        0,
        "count",
        "How many numbers one task reads, at most.",
        name="maxRecordsPerPartition",
        where="read",
        kafka="maxRecordsPerPartition",
        shown="none",
    )
    fetch_rows: int = setting(
        32_768,
        "count",
        "How many rows one Arrow batch has, at most.",
        name="fetchRows",
        where="read",
        kafka="kafka.max.poll.records",
        bounds=(1, 1 << 20),
    )
    fetch_bytes: int = setting(
        8 * MIB,
        "bytes",
        "About how many bytes one Arrow batch has. A longer message gets a batch of its own.",
        name="fetchBytes",
        where="read",
        kafka="kafka.fetch.max.bytes",
        bounds=(4 * KIB, 256 * MIB),
        shown="8m",
    )
    push_down_filters: bool = setting(
        False,
        "flag",
        "Use the query's filters on `sequence`, `timestamp` and `subject` to read less. Needs"
        " `spark.sql.python.filterPushdown.enabled=true`, or the query fails.",
        name="pushDownFilters",
        where="batch",
    )
    max_offsets_per_trigger: int = setting(
        0,
        "count",
        "How many numbers one micro-batch takes, at most. 250 000 to 500 000 is a good choice.",
        name="maxOffsetsPerTrigger",
        where="stream",
        kafka="maxOffsetsPerTrigger",
        shown="none",
    )
    min_offsets_per_trigger: int = setting(
        0,
        "count",
        "Wait for this many numbers before a micro-batch. Not with Trigger.AvailableNow.",
        name="minOffsetsPerTrigger",
        where="stream",
        kafka="minOffsetsPerTrigger",
        shown="none",
    )
    max_trigger_delay: int = setting(
        900_000,
        "ms",
        "How long `minOffsetsPerTrigger` may wait.",
        name="maxTriggerDelay",
        where="stream",
        kafka="maxTriggerDelay",
        shown="15m",
    )

    subject: str = setting(
        "",
        "subject",
        "The subject of all rows; overrides the column `subject`.",
        name="subject",
        where="write",
        kafka="topic",
    )
    delivery_guarantee: str = setting(
        "exactly-once",
        "choice",
        "`exactly-once`: the rows of a batch are staged, and published when all of them are there."
        " `at-least-once`: they are published at once, and again if a task or a batch is repeated.",
        name="deliveryGuarantee",
        where="write",
        kafka="(at least once only)",
        choices=("exactly-once", "at-least-once"),
    )
    txn_app_id: str = setting(
        "",
        "text",
        "The application whose batches are counted. For batch writes that may be repeated, with"
        " `txnVersion`.",
        name="txnAppId",
        where="write",
        length_max=255,
        shown="stream: the query's id; batch: a random one",
    )
    txn_version: int = setting(
        -1,
        "count",
        "The number of this batch of `txnAppId`. A batch whose number is not above the last one is"
        " not published again. Not for streams, which count their batches themselves.",
        name="txnVersion",
        where="write",
        bounds=(0, NUMBER_MAX),
        shown="stream: the batch's id",
    )
    publish_batch_bytes: int = setting(
        MIB,
        "bytes",
        "How many bytes are sent in one piece, at most what the broker accepts.",
        name="publishBatchBytes",
        where="write",
        kafka="kafka.batch.size",
        bounds=(KIB, 64 * MIB),
        shown="1m",
    )
    publish_window: int = setting(
        4,
        "count",
        "How many pieces may be sent before the first of them is answered.",
        name="publishWindow",
        where="write",
        kafka="kafka.max.in.flight.requests.per.connection",
        bounds=(1, 64),
    )
    ack_timeout_ms: int = setting(
        120_000,
        "ms",
        "How long one piece, or the commit, is retried: over broken connections, and while the"
        " journal is full.",
        name="ackTimeoutMs",
        where="write",
        kafka="kafka.delivery.timeout.ms",
        bounds=(1, DAY_MS),
    )

    @classmethod
    def parse(cls, given: Mapping[str, str], where: str) -> "Options":
        """The options of a read or a write. Raises `OptionError`; logs unknown ones."""
        known = {setting.name.lower(): setting for setting in SETTINGS}
        found: dict[str, Any] = {"where": where}
        for name, text in given.items():
            wanted = known.get(name.lower())
            if wanted is None:
                _warn_unknown(name, [setting.name for setting in SETTINGS])
            elif _is_meant(wanted, where):
                found[wanted.field] = wanted.read_option(str(text))
        made = cls(**found)
        made._check()
        if made.starting_offsets == "":
            default = LATEST if where == "stream" else EARLIEST
            made = dataclasses.replace(made, starting_offsets=default)
        return made

    @classmethod
    def check_values(cls, given: Mapping[str, str]) -> None:
        """Check the value of each option, used or not. Raises `OptionError`."""
        known = {setting.name.lower(): setting for setting in SETTINGS}
        for name, text in given.items():
            if name.lower() in known:
                known[name.lower()].read_option(str(text))

    @classmethod
    def flag(cls, given: Mapping[str, str], name: str) -> bool:
        """Read one option that is true or false, before the others are parsed."""
        wanted = next(setting for setting in SETTINGS if setting.name == name)
        texts = [text for key, text in given.items() if key.lower() == name.lower()]
        return bool(wanted.read_option(str(texts[0])) if texts else wanted.default)

    def _check(self) -> None:
        """Refuse combinations that are not allowed. Raises `OptionError`."""
        if not self.servers:
            raise OptionError(f"servers: the option is missing; give {values.ADDRESSES}")
        ways = {"user": self.user, "token": self.token}
        ways |= {"credentialsFile": self.credentials_file, "nkeyFile": self.nkey_file}
        several = [name for name, value in ways.items() if value]
        if len(several) > 1:
            one, other = several[:2]
            raise OptionError(f"{other}: there is a {one} as well; give only one of them")
        if self.password and not self.user:
            raise OptionError("password: there is no user; give the option user as well")
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


SETTINGS: Final = settings_of(Options)


def _in_order(end: str, ending: int, start: str, starting: int) -> None:
    if ending < starting:
        raise OptionError(f"{end}: {ending} is below {start}, {starting}")


def _is_meant(setting: SparkSetting, where: str) -> bool:
    """True if an option applies here. If not, it is logged, or refused if it would mislead."""
    name = setting.name
    if setting.where in PLACES[where]:
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
    hint = f"; did you mean {lower[close[0]]}?" if close else ""
    log.warning("option %s is unknown and ignored%s", name, hint)


def tables(*places: str) -> str:
    """The options as Markdown: a table for each of `places`, with Kafka's names."""
    lines: list[str] = []
    for where in places or HEADINGS:
        lines += [f"**{HEADINGS[where]}**", "", "| option | default | | Kafka's |"]
        lines.append("|---|---|---|---|")
        lines += [setting.table_line() for setting in SETTINGS if setting.where == where]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables())
