"""The seeds of messages between members, in readable form; fuzz/seeds.py writes them."""

from fuzz.case_member import FORWARD, FRAMES, INSPECT, RAW
from fuzz.model_journal import Record, encode
from fuzz.records import OWN_ORIGIN, SALT
from sequencer.replica import member_messages as m
from sequencer.replica.member_wire import encode_message
from sequencer.replica.view import View

ID, OTHER = "1141c2c3a6b8558d", "00000000000000ff"
VIEW = View(ID, 7, OTHER, 41, (OTHER, ID))
MESSAGES = (
    m.Hello((1, 2), "c", ID, OTHER, 4, "always", 7, ((0, 1), (7, 9)), 12, ((6, 1),), 4),
    m.Welcome(7, 88, VIEW, 11, 12, 6, True, 5, 4),
    m.NotCoordinator("why", 88, VIEW),
    m.Data(7, 8, 2, m.Records(9, 9, 6, bytes(64))),
    m.Data(7, 8, 2, None),
    m.Ack(7, 9, 2, 3, 55),
    m.Forward(7, bytes(64)),
    m.AlreadyNumbered(OWN_ORIGIN, 3, 9),
    m.Pulse(7, 55, 9, 2, 88, VIEW),
    m.Notes(7, 2, (m.Note(3, 7, "DONE", {"rows": 2}), m.Note(4, 7, "GROUPS", {}))),
    m.StagePiece(7, "app", 4, "p0", 100, b"rows"),
    m.StageFetch(7, "app", 4, "p0", 100),
    m.StageDrop(7, "app", 4, "p0"),
    m.MemberRequest(3, "STAGE", {"a": "b"}, b"rows"),
    m.MemberReply(3, 503, {}, b"again"),
    m.HandOver(88, VIEW),
    m.Leave(7),
    m.Takers(7, ((b"a.*", b"g", 2), (b"b", b"h", 0))),
)
# As in fuzz/records.py: of the own run, with headers that have an id, damaged.
OWN, OWN_ID, DAMAGED, LATER = b"\x04\1\3", b"\x14\1\3\1", b"\x24\1\3\x20\x07\1", b"\x06\1\3\2"


def _raw(number: int, epoch: int, origin: int, sequence: int) -> bytes:
    time = number * 10
    record = Record(number, time, origin, sequence, epoch, 0, b"a.b", b"", b"", b"hello")
    return encode(record, SALT, number > 0)


def member_seeds() -> dict[str, bytes]:
    """Some frames in each input, in pieces; and records to both ends."""
    frames = [b"".join(encode_message(message)) for message in MESSAGES]
    head = bytes([FRAMES, 0, 0, 0, 0, 3])
    seeds = {f"frames-{at}": head + b"".join(frames[at::4]) for at in range(4)}
    inspect, entries = bytes([INSPECT, 0, 1]), b"\xff\x0f"
    seeds["inspect-own"] = inspect + entries + b"\0" + OWN * 4
    seeds["inspect-some"] = inspect + b"\x35\0\0" + OWN * 2 + b"\0\1\3" + OWN_ID * 2
    seeds["inspect-damaged"] = inspect + entries + b"\0" + OWN + DAMAGED + OWN
    seeds["inspect-gap"] = inspect + entries + b"\0" + OWN + LATER + OWN
    seeds["inspect-cut"] = inspect + entries + b"\5" + OWN * 2
    records = b"".join(_raw(number, 1, OWN_ORIGIN, number) for number in (1, 2))
    seeds["inspect-raw"] = bytes([INSPECT, RAW, 0]) + entries + b"\0" + records
    forward = bytes([FORWARD, 0, 0xFD, 0, 0, 0])
    seeds["forward-own"] = forward + OWN * 3
    seeds["forward-ids"] = forward + OWN_ID * 2 + OWN + OWN_ID
    seeds["forward-numbered"] = bytes([FORWARD, 0, 5, 0, 0, 0]) + OWN * 3
    seeds["forward-other"] = bytes([FORWARD, 0, 0xFC, 0, 0, 0]) + OWN + b"\0\1\3"
    seeds["forward-damaged"] = forward + OWN + DAMAGED
    seeds["forward-cut"] = bytes([FORWARD, 0, 0xFD, 0, 0, 7]) + OWN * 2
    records = _raw(0, 0, OWN_ORIGIN, 1) + _raw(0, 0, OWN_ORIGIN, 2)
    seeds["forward-raw"] = bytes([FORWARD, RAW, 0, 0, 0, 0]) + records
    return seeds
