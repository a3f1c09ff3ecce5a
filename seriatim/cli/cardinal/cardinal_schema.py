"""Reads the schema of an application from the flags: a file, or single patterns."""

from pathlib import Path

from cardinal.errors import SchemaError
from cardinal.schema import Schema, Tracking
from cardinal.schema_file import describe, parse
from cardinal.transport.envelope import APPLICATION
from seriatim.cli.errors import CliError, UsageError


def application_name(name: str) -> str:
    """`name` itself, if it can be part of a subject. Raises `CliError`."""
    if not APPLICATION.fullmatch(name):
        raise UsageError(f'--application: "{name}" is not one word of letters, digits, - and _')
    return name


def read_schema(file: str | None, topics: list[str] | None, default: str) -> Schema:
    """The schema that the flags give. Raises `CliError`."""
    found: dict[str, str] = {}
    if file is not None:
        if topics:
            raise UsageError("give --schema or --topic, not both")
        return _of_file(file)
    for one in topics or ():
        pattern, equals, topic = one.rpartition("=")
        if not equals:
            raise UsageError(f'--topic: "{one}" is not PATTERN=TOPIC, such as "a/=accounts"')
        if pattern in found:
            raise UsageError(f'--topic: the pattern "{pattern}" is given twice')
        found[pattern] = topic
    try:
        return Schema(found, default)
    except SchemaError as error:
        raise CliError(describe(error)) from error


def read_tracking(
    file: str | None, topics: list[str] | None, default: str, patterns: list[str] | None
) -> Tracking | None:
    """Return the tracking that the flags ask for; None: all keys and topics. Raises `CliError`."""
    if file is None and not topics:
        if patterns:
            raise UsageError(
                "--track needs --schema, or --topic: they say which topic has such keys"
            )
        return None
    schema = read_schema(file, topics, default)
    try:
        return schema.track(*(patterns or ()))
    except SchemaError as error:
        raise UsageError(f"--track: {describe(error)}") from error


def _of_file(file: str) -> Schema:
    try:
        text = Path(file).read_text()
    except OSError as error:
        raise CliError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{file}: not valid TOML: {error}") from error
    try:
        return parse(text)
    except SchemaError as error:
        raise CliError(f"{file}: {describe(error)}") from error
