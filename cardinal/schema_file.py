"""A schema as the text of a TOML file, and back.

default = "blocks"

[topics]
"a/" = "accounts"
'l/[0-9a-f]+/' = "logs"
"""

import json
import tomllib

from cardinal.errors import SchemaError
from cardinal.schema import Schema


def parse(text: str) -> Schema:
    """The schema in a file. Raises `SchemaError`."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError([f"not valid TOML: {error}"]) from error
    for name in found:
        if name not in ("default", "topics"):
            raise SchemaError([f'"{name}" is unknown; the keys are default and topics'])
    topics, default = found.get("topics", {}), found.get("default", "")
    if not isinstance(default, str) or not default:
        raise SchemaError(["default: give the topic for all other keys"])
    if not isinstance(topics, dict) or not all(isinstance(one, str) for one in topics.values()):
        raise SchemaError(["topics: give a table that maps patterns to topics"])
    return Schema(topics, default)


def as_toml(schema: Schema) -> str:
    """A schema as a file that `parse` accepts."""
    lines = [f"default = {_quoted(schema.default)}", "", "[topics]"]
    lines += [
        f"{_quoted(pattern)} = {_quoted(topic)}" for pattern, topic in schema.patterns.items()
    ]
    return "\n".join(lines) + "\n"


def describe(error: SchemaError) -> str:
    """The problems, for a user who gave a file or flags."""
    if len(error.problems) == 1:
        return error.problems[0]
    lines = "".join(f"\n  {problem}" for problem in error.problems)
    return f"{len(error.problems)} problems:{lines}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
