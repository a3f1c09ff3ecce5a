"""The schema of an application as the command line gives it: a TOML file, or patterns one by one.

default = "blocks"

[topics]
"a/" = "accounts"
'l/[0-9a-f]+/' = "logs"
"""

import json
import tomllib
from pathlib import Path

from broker.cli.errors import CliError
from cardinal.errors import SchemaError
from cardinal.schema import Schema, Tracking
from cardinal.transport.envelope import APPLICATION


def application_name(name: str) -> str:
    """`name` itself, when it can be part of a subject. Raises `CliError`."""
    if not APPLICATION.fullmatch(name):
        raise CliError(f'--application: "{name}" is not one word of letters, digits, - and _')
    return name


def read_schema(file: str | None, topics: list[str] | None, default: str) -> Schema:
    """The schema of the flags. Raises `CliError`."""
    found: dict[str, str] = {}
    if file is not None:
        if topics:
            raise CliError("give --schema or --topic, not both")
        found, default = _of_file(file)
    for one in topics or ():
        pattern, equals, topic = one.rpartition("=")
        if not equals:
            raise CliError(f'--topic: "{one}" is not PATTERN=TOPIC, such as "a/=accounts"')
        if pattern in found:
            raise CliError(f'--topic: the pattern "{pattern}" is given twice')
        found[pattern] = topic
    try:
        return Schema(found, default)
    except SchemaError as error:
        where = f"{file}: " if file is not None else ""
        raise CliError(f"{where}{_told(error)}") from error


def read_tracking(
    file: str | None, topics: list[str] | None, default: str, patterns: list[str] | None
) -> Tracking | None:
    """What a consumer wants; None: everything of all topics. Raises `CliError`."""
    if file is None and not topics:
        if patterns:
            raise CliError("--track needs --schema, or --topic: they say where such keys come")
        return None
    schema = read_schema(file, topics, default)
    try:
        return schema.track(*(patterns or ()))
    except SchemaError as error:
        raise CliError(f"--track: {_told(error)}") from error


def as_toml(schema: Schema) -> str:
    """A schema as a file that `read_schema` reads."""
    lines = [f"default = {_quoted(schema.default)}", "", "[topics]"]
    lines += [
        f"{_quoted(pattern)} = {_quoted(topic)}" for pattern, topic in schema.patterns.items()
    ]
    return "\n".join(lines) + "\n"


def _of_file(file: str) -> tuple[dict[str, str], str]:
    try:
        found = tomllib.loads(Path(file).read_text())
    except OSError as error:
        raise CliError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CliError(f"{file}: no TOML: {error}") from error
    for name in found:
        if name not in ("default", "topics"):
            raise CliError(f'{file}: "{name}" is not known; there are default and topics')
    topics, default = found.get("topics", {}), found.get("default", "")
    if not isinstance(default, str) or not default:
        raise CliError(f"{file}: default: give the topic of what no pattern takes")
    if not isinstance(topics, dict) or not all(isinstance(one, str) for one in topics.values()):
        raise CliError(f"{file}: topics: give a table of patterns to names of topics")
    return topics, default


def _told(error: SchemaError) -> str:
    if len(error.problems) == 1:
        return error.problems[0]
    lines = "".join(f"\n  {problem}" for problem in error.problems)
    return f"{len(error.problems)} problems:{lines}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
