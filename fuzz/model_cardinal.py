"""fastavro with the schemas of the specification judges cardinal's Avro, in both directions."""

import io
from typing import Any

import fastavro

from cardinal.messages import Batch, SubBatchMessage

FIXED = {"type": "fixed", "size": 32}
ENTRY = {
    "type": "record",
    "name": "update",
    "fields": [
        {"name": "value", "type": "bytes"},
        {"name": "count", "type": "int"},
        {"name": "delete", "type": "boolean"},
        {"name": "subbatch", "type": {"name": "subb", **FIXED}},
    ],
}
BATCH = {
    "type": "record",
    "name": "batch",
    "avro.codec": "snappy",
    "namespace": "cloud.rivet.cardinal",
    "fields": [
        {"name": "num", "type": "long"},
        {"name": "weight", "type": "bytes"},
        {"name": "parent", "type": {"name": "par", **FIXED}},
        {"name": "updates", "type": {"name": "upd", "type": "map", "values": ENTRY}},
    ],
}
SUB_BATCH = {
    "type": "record",
    "name": "update",
    "fields": [
        {"name": "delete", "type": {"name": "del", "type": "array", "items": "string"}},
        {"name": "updates", "type": {"name": "upd", "type": "map", "values": "bytes"}},
    ],
}
SCHEMAS = {
    Batch: fastavro.parse_schema(BATCH),
    SubBatchMessage: fastavro.parse_schema(SUB_BATCH),
}


def fields(message: Batch | SubBatchMessage) -> dict[str, Any]:
    """A message's fields by the specification's schema, the weight as a number."""
    if isinstance(message, SubBatchMessage):
        return {"delete": list(message.deletes), "updates": dict(message.updates)}
    return {
        "num": message.number,
        "weight": message.weight,
        "parent": message.parent,
        "updates": {
            key: {
                "value": entry.value,
                "count": entry.count,
                "delete": entry.delete,
                "subbatch": entry.sub_batch,
            }
            for key, entry in message.entries.items()
        },
    }


def written(message: Batch | SubBatchMessage) -> bytes:
    """The value of a message as fastavro writes it: each map or array in one block."""
    out, record = io.BytesIO(), fields(message)
    if "weight" in record:
        record["weight"] = record["weight"].to_bytes(32, "big").lstrip(b"\0")
    fastavro.schemaless_writer(out, SCHEMAS[type(message)], record)
    return out.getvalue()


def read(kind: type[Batch | SubBatchMessage], value: bytes) -> Any:
    """Read a value by fastavro, in the form of `fields`."""
    record: Any = fastavro.schemaless_reader(io.BytesIO(value), SCHEMAS[kind], None)
    if "weight" in record:
        record["weight"] = int.from_bytes(record["weight"], "big")
    return record
