r"""Blocks and chain updates as lines of JSON, for the command line, tests and hand-written files.

A line to produce is a block, or a reorg with the blocks that go on its channel:

    {"number": 1, "hash": "0x01", "parent": "0x00", "weight": 1,
     "updates": {"a/1": "0x88"}, "deletes": ["a/2"],
     "batches": {"s/": {"id": "0x01", "updates": {"s/1": "0xab"}, "deletes": ["s/2"]}}}
    {"reorg": {"number": 1, "hash": "0x01", "weight": 9}, "blocks": [{"number": 2, ...}, ...]}

Hashes, ids and values are hex with the prefix 0x; shorter hashes and ids are padded with zeros on
the left. Keys are text. A weight is a number, or hex; by default it is the block's number. Updates,
deletes and batches are optional. Output follows the same rules, with hashes in full. Weights above
2^53 - 1, which JSON readers round, are written as hex.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cardinal.block import Block
from cardinal.draft import Draft, ReorgDraft, SubBatchDraft
from cardinal.errors import LineError
from cardinal.messages import HASH_SIZE, NUMBER_MAX, WEIGHT_MAX
from cardinal.update import ChainUpdate

EXACT_MAX = 2**53 - 1
BLOCK_FIELDS = {"number", "hash", "parent", "weight", "updates", "deletes", "batches"}


def read(line: str | bytes) -> Draft | ReorgDraft:
    """The block, or the reorg, on a line. Raises `LineError`."""
    try:
        found = json.loads(line, object_pairs_hook=_once)
    except ValueError as error:
        if isinstance(error, LineError):
            raise
        raise LineError(f"not valid JSON: {error}") from None
    except RecursionError:
        raise LineError("not valid JSON: nested too deeply") from None
    fields = _fields(found, "the line", BLOCK_FIELDS | {"reorg", "blocks"})
    if "reorg" not in fields:
        return _block(fields, "")
    _fields(fields, "the line", {"reorg", "blocks"})
    reorg = _fields(fields["reorg"], "reorg", {"number", "hash", "weight"})
    blocks = fields.get("blocks")
    if not isinstance(blocks, list) or not blocks:
        raise LineError("blocks: give the list of replacing blocks")
    return ReorgDraft(
        _number(reorg, "number", "reorg.", NUMBER_MAX),
        _hash(reorg, "hash", "reorg."),
        _weight(reorg, "reorg.", None),
        [_block(one, f"blocks[{at}].") for at, one in enumerate(blocks)],
    )


def write(block: Draft) -> str:
    """A block as a line that `read` accepts."""
    fields: dict[str, Any] = {
        "number": block.number,
        "hash": hexed(block.hash),
        "parent": hexed(block.parent),
        "weight": _told_weight(block.weight),
    }
    fields |= _content(block.updates, block.deletes)
    if block.batches:
        fields["batches"] = {
            prefix: {"id": hexed(batch.id)} | _content(batch.updates, batch.deletes)
            for prefix, batch in block.batches.items()
        }
    return json.dumps(fields, ensure_ascii=False)


def update_fields(update: ChainUpdate, brief: bool = False) -> dict[str, Any]:
    """A chain update as a JSON object: blocks removed and added, oldest first.

    `brief` gives the number of keys instead of the updates and deletes.
    """
    fields: dict[str, Any] = {
        "removed": [{"number": one.number, "hash": hexed(one.hash)} for one in update.removed],
        "added": [collected(one, brief) for one in update.added],
        "ancestor": hexed(update.ancestor),
    }
    fields |= {"unlinked": True} if update.unlinked else {}
    return fields | ({"beyond": True} if update.beyond else {})


def collected(block: Block, brief: bool = False) -> dict[str, Any]:
    """A collected block as a JSON object."""
    fields: dict[str, Any] = {
        "number": block.number,
        "hash": hexed(block.hash),
        "parent": hexed(block.parent),
        "weight": _told_weight(block.weight),
    }
    if brief:
        return fields | {"updates": len(block.updates), "deletes": len(block.deletes)}
    updates = dict(sorted(block.updates.items()))
    return fields | {
        "updates": {key: hexed(value) for key, value in updates.items()},
        "deletes": sorted(block.deletes),
    }


def hexed(value: bytes) -> str:
    """Bytes as written in a line."""
    return "0x" + value.hex()


def read_hash(text: object, where: str) -> bytes:
    """A hash or an id, padded with zeros on the left. Raises `LineError`."""
    value = _unhex(text, where)
    if not 0 < len(value) <= HASH_SIZE:
        raise LineError(f"{where}: {len(value)} bytes; a hash has {HASH_SIZE}")
    return value.rjust(HASH_SIZE, b"\0")


def _content(updates: Mapping[str, bytes], deletes: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if updates:
        found["updates"] = {key: hexed(value) for key, value in updates.items()}
    if deletes:
        found["deletes"] = list(deletes)
    return found


def _told_weight(weight: int) -> int | str:
    return weight if weight <= EXACT_MAX else hex(weight)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineError(f"{twice!r} occurs twice")
    return found


def _fields(found: object, what: str, known: set[str]) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise LineError(f"{what} is not a JSON object")
    for name in found:
        if name not in known:
            raise LineError(f"{what} has no field {name!r}; there are {', '.join(sorted(known))}")
    return found


def _block(found: object, where: str) -> Draft:
    fields = _fields(found, where.rstrip(".") or "a block", BLOCK_FIELDS)
    number = _number(fields, "number", where, NUMBER_MAX)
    batches = _object(fields, "batches", where)
    return Draft(
        number,
        _hash(fields, "hash", where),
        _hash(fields, "parent", where),
        _weight(fields, where, number),
        _updates(fields, where),
        _deletes(fields, where),
        {
            prefix: _sub_batch(one, f"{where}batches[{prefix!r}].")
            for prefix, one in batches.items()
        },
    )


def _sub_batch(found: object, where: str) -> SubBatchDraft:
    fields = _fields(found, where.rstrip("."), {"id", "updates", "deletes"})
    id = _hash(fields, "id", where)
    return SubBatchDraft(id, _updates(fields, where), _deletes(fields, where))


def _number(fields: Mapping[str, Any], name: str, where: str, most: int) -> int:
    value = fields.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise LineError(f"{where}{name}: {_shown(value)} is not a number from 0 to {most}")
    return value


def _weight(fields: Mapping[str, Any], where: str, default: int | None) -> int:
    value = fields.get("weight", default)
    if isinstance(value, str):
        value = int.from_bytes(_unhex(value, f"{where}weight"), "big")
    if type(value) is not int or not 0 <= value <= WEIGHT_MAX:
        raise LineError(f"{where}weight: {_shown(value)} is not a number from 0 to 2^256 - 1")
    return value


def _hash(fields: Mapping[str, Any], name: str, where: str) -> bytes:
    return read_hash(fields.get(name), where + name)


def _unhex(text: object, where: str) -> bytes:
    if isinstance(text, str) and text.startswith("0x"):
        digits = text[2:]
        try:
            return bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))
        except ValueError:
            pass
    what = "is missing: give" if text is None else f"{_shown(text)} is not"
    raise LineError(f"{where}: {what} hex after 0x")


def _object(fields: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise LineError(f"{where}{name}: {_shown(value)} is not a JSON object")
    return value


def _updates(fields: Mapping[str, Any], where: str) -> dict[str, bytes]:
    found = _object(fields, "updates", where)
    return {key: _unhex(value, f"{where}updates[{key!r}]") for key, value in found.items()}


def _deletes(fields: Mapping[str, Any], where: str) -> list[str]:
    found = fields.get("deletes", [])
    if not isinstance(found, list) or not all(isinstance(key, str) for key in found):
        raise LineError(f"{where}deletes: {_shown(found)} is not a list of keys")
    return found


def _shown(value: object) -> str:
    return "nothing" if value is None else f"{json.dumps(value):.60}"
