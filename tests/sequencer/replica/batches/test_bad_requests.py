"""A broken member, or one of another version, that knows the secret: its requests do no harm."""

import pytest

from sequencer.replica.member_messages import BAD, MemberReply, MemberRequest, Send
from tests.replica.scripts import Scripted

BATCHES = 8  # a seed of three members whose clients commit batches
KEY = 1 << 40
NAMED = {"application": "a", "batch": "1"}


@pytest.mark.parametrize(
    ("word", "headers", "payload"),
    [
        ("STAGE", {}, b""),
        ("STAGE", NAMED, b""),
        ("STAGE", NAMED | {"name": "s", "offset": "first"}, b"row"),
        ("COMMIT", NAMED | {"batch": "one"}, b"{}"),
        ("COMMIT", NAMED, b"{"),
        ("COMMIT", NAMED, b"[]"),
        ("ABORT", NAMED, b"[]]"),
        ("LAST", {}, b""),
    ],
)
def test_given_a_request_that_is_not_one_then_it_is_refused_and_the_cluster_goes_on(
    word: str, headers: dict[str, str], payload: bytes
) -> None:
    run = Scripted(BATCHES)
    run.run(500)
    leader = run.leader()
    member = leader.member
    assert member is not None
    assert member.coordinator is not None
    connection = next(iter(member.coordinator.links))
    member.receive(connection, MemberRequest(KEY, word, headers, payload))
    replies = [one for one in member.actions if isinstance(one, Send)]
    replies = [one for one in replies if isinstance(one.message, MemberReply)]
    (reply,) = (one for one in replies if one.message.key == KEY)
    assert reply.connection == connection
    assert reply.message.status == BAD
    committed = member.watermark
    run.run(run.now + 1500)
    assert member.watermark > committed
