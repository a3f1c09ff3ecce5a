"""The table of options: each is parsed, warned of, refused by its name, shown without secrets."""

import logging
import pickle
import re

import pytest

from pyspark_seriatim.errors import OptionError
from pyspark_seriatim.options import HEADINGS, SETTINGS, Options, tables
from pyspark_seriatim.values import Position
from seriatim.client.server_address import ServerAddress

SERVERS = {"servers": "127.0.0.1:4222"}
# Every option, a value that is not its default, and what becomes of it.
GIVEN = {
    "servers": ("a:1,b:2", (ServerAddress("a", 1), ServerAddress("b", 2))),
    "user": ("me", "me"),
    "password": ("s3cret", "s3cret"),
    "token": ("t0ken", "t0ken"),
    "credentialsFile": ("/c", "/c"),
    "nkeyFile": ("/n", "/n"),
    "inboxPrefix": ("_MINE.x", "_MINE.x"),
    "tlsCaFile": ("/ca", "/ca"),
    "tlsCertFile": ("/cert", "/cert"),
    "tlsKeyFile": ("/key", "/key"),
    "tlsHandshakeFirst": ("true", True),
    "connectTimeoutMs": ("1s", 1000),
    "requestTimeoutMs": ("7", 7),
    "fetchOffset.numRetries": ("0", 0),
    "fetchOffset.retryIntervalMs": ("0", 0),
    "subscribe": ("a.*,b", ("a.*", "b")),
    "subscribePattern": ("a|b", "a|b"),
    "startingOffsets": ("7", Position(7)),
    "endingOffsets": ("9", Position(9)),
    "startingTimestamp": ("0", 0),
    "endingTimestamp": ("1767225600000", 1767225600000),
    "failOnDataLoss": ("false", False),
    "includeHeaders": ("true", True),
    "includeReply": ("true", True),
    "minPartitions": ("4", 4),
    "maxRecordsPerPartition": ("10", 10),
    "fetchRows": ("1", 1),
    "fetchBytes": ("1m", 1 << 20),
    "pushDownFilters": ("true", True),
    "maxOffsetsPerTrigger": ("500000", 500_000),
    "minOffsetsPerTrigger": ("10", 10),
    "maxTriggerDelay": ("1m", 60_000),
    "subject": ("orders", "orders"),
    "deliveryGuarantee": ("At-Least-Once", "at-least-once"),
    "txnAppId": ("job", "job"),
    "txnVersion": ("0", 0),
    "publishBatchBytes": ("64k", 1 << 16),
    "publishWindow": ("1", 1),
    "ackTimeoutMs": ("1m", 60_000),
}
ALONE = {"token": ("user", "password")}  # does not go with these
WHERE = {"all": ("batch", "stream", "write"), "read": ("batch", "stream")}


def test_given_the_table_then_every_option_is_tried_here() -> None:
    assert set(GIVEN) == {setting.name for setting in SETTINGS}


@pytest.mark.parametrize("where", ["batch", "stream", "write"])
@pytest.mark.parametrize("case", [str, str.lower, str.upper])
def test_given_every_option_when_parsed_then_each_has_its_value(
    where: str, case: type[str]
) -> None:
    for setting in SETTINGS:
        name, meant = setting.name, setting.where
        if where not in WHERE.get(meant, (meant,)):
            continue
        together = {"password": "user", "tlsKeyFile": "tlsCertFile"}.get(name, "servers")
        given = {**SERVERS, together: GIVEN[together][0], name: GIVEN[name][0]}
        made = Options.parse({case(key): value for key, value in given.items()}, where)
        assert getattr(made, setting.field) == GIVEN[name][1], name
        assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(("where", "start"), [("batch", "earliest"), ("stream", "latest")])
def test_given_no_start_when_parsed_then_it_is_that_of_the_kind_of_query(
    where: str, start: str
) -> None:
    assert Options.parse(SERVERS, where).starting_offsets == start


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"servers": ""}, "servers: an address is empty; give host:port"),
        ({"startingoffsets": "begin"}, 'startingOffsets: "begin" is not one of earliest, latest,'),
        ({"endingOffsets": "earliest"}, 'endingOffsets: "earliest" is not one of latest, a number'),
        ({"fetchRows": "0"}, 'fetchRows: "0" is not a whole number from 1 to 1048576'),
        ({"minPartitions": "x"}, 'minPartitions: "x" is not a whole number from 1 to 100000'),
        ({"failOnDataLoss": ""}, 'failOnDataLoss: "" is neither true nor false'),
        ({"subscribe": "a."}, 'subscribe: "a." is not a valid subject'),
        ({"subscribePattern": "["}, 'subscribePattern: "[" is not a regular expression'),
        ({"tlsCaFile": ""}, "tlsCaFile: it is empty"),
        ({"tlsKeyFile": "/k"}, "tlsKeyFile: it needs tlsCertFile"),
        ({"password": "s3cret"}, "password: there is no user"),
        ({"token": "t0ken", "user": "me"}, "token: there is a user as well"),
        ({"nkeyFile": "/n", "user": "me"}, "nkeyFile: there is a user as well"),
        ({"startingOffsets": "9", "endingOffsets": "7"}, "endingOffsets: 7 is below startingOf"),
        (
            {"startingTimestamp": "9", "endingTimestamp": "7"},
            "endingTimestamp: 7 is below startingTimestamp, 9",
        ),
    ],
)
def test_given_a_wrong_value_when_parsed_then_the_option_is_named_and_no_secret(
    given: dict[str, str], why: str
) -> None:
    with pytest.raises(OptionError, match=re.escape(why)) as refused:
        Options.parse({**SERVERS, **given}, "batch")
    assert "s3cret" not in str(refused.value)
    assert "t0ken" not in str(refused.value)


def test_given_limits_that_contradict_when_parsed_then_it_is_refused() -> None:
    limits = {"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"}
    with pytest.raises(OptionError, match="minOffsetsPerTrigger: 11 is above maxOffsetsPerTrig"):
        Options.parse({**SERVERS, **limits}, "stream")


def test_given_no_servers_when_parsed_then_it_says_that_they_are_needed() -> None:
    with pytest.raises(OptionError, match="servers: the option is missing; give host:port"):
        Options.parse({}, "batch")


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_given_an_end_when_a_stream_is_read_then_it_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}: a stream has no end"):
        Options.parse({**SERVERS, name: "7"}, "stream")


@pytest.mark.parametrize(
    ("name", "where", "said"),
    [
        (
            "startingOffset",
            "batch",
            "startingOffset is unknown and ignored; did you mean startingOffsets",
        ),
        ("colour", "batch", "colour is unknown and ignored"),
        (
            "maxOffsetsPerTrigger",
            "batch",
            "maxOffsetsPerTrigger has no meaning for reading a batch",
        ),
        ("subscribe", "write", "subscribe has no meaning for writing"),
    ],
)
def test_given_an_option_without_a_meaning_when_parsed_then_a_warning_names_it(
    caplog: pytest.LogCaptureFixture, name: str, where: str, said: str
) -> None:
    with caplog.at_level(logging.WARNING):
        Options.parse({**SERVERS, name: "s3cret"}, where)
    (message,) = caplog.messages
    assert re.search(said, message)
    assert "s3cret" not in message


def test_given_what_spark_adds_when_parsed_then_there_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Options.parse({**SERVERS, "checkpointLocation": "/tmp", "queryName": "q"}, "write")
    assert caplog.messages == []


def test_given_secrets_when_options_are_shown_then_they_are_not_in_it() -> None:
    given = {"servers": "nats://me:s3cret@a", "user": "me", "password": "pa55"}
    shown = repr(Options.parse(given, "batch")) + repr(
        Options.parse({**SERVERS, "token": "t0ken"}, "batch")
    )
    assert "user='me'" in shown
    assert not any(secret in shown for secret in ("s3cret", "pa55", "t0ken"))


def test_given_a_flag_when_asked_for_by_itself_then_case_is_nothing() -> None:
    assert Options.flag({"INCLUDEheaders": "true"}, "includeHeaders") is True
    assert Options.flag({}, "includeHeaders") is False
    with pytest.raises(OptionError, match=r"includeReply: .* is neither true nor false"):
        Options.flag({"includereply": "often"}, "includeReply")


def test_given_the_table_when_written_for_the_manual_then_every_option_is_a_line_of_it() -> None:
    lines = [line for line in tables().splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == [
        setting.name for where in HEADINGS for setting in SETTINGS if setting.where == where
    ]
    assert all(line.count(" | ") == 3 for line in lines)
