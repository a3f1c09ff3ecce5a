"""Reply subjects that aim at others, and answers that nobody reads."""

from pathlib import Path
from typing import Any

from tests.attacks.beside import USERS, beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.raw import HEADERS, RawClient

TIMES = depth(20_000, 200_000)
LONG_REPLIES = depth(2048, 4096)
AIMS = (b"_INBOX.victim.1", b"beside.orders", b"$SEQ.PUB.beside.orders", b"$SEQ.INFO", b"_R_.x")
ASKED = (
    b"PUB $SEQ.INFO %b 0\r\n\r\n",
    b"PUB $SEQ.GET.1 %b 0\r\n\r\n",
    b"PUB $SEQ.LAST.mallory.x %b 0\r\n\r\n",
    b"PUB $SEQ.PUB.mallory.x %b 1\r\nx\r\n",
    b"PUB $SEQ.PUB.mallory.x %b 0\r\n\r\n",
    b"PUB $SEQ.READ %b 0\r\n\r\n",
    b"PUB $SEQ.READ %b 1\r\n{\r\n",
    b"PUB $SEQ.COMMIT %b 2\r\n{}\r\n",
    b"PUB mallory.nobody %b 0\r\n\r\n",
)


def test_given_replies_that_aim_at_others_when_asked_then_these_hear_nothing(
    tmp_path: Path,
) -> None:
    """Only whoever has asked gets an answer, on a subscription of its own."""
    with (
        beside(tmp_path) as broker,
        RawClient(broker.port, HEADERS, b"SUB _INBOX.victim.> 1\r\nSUB _R_.> 2\r\n") as victim,
        crowd(broker.port, 4) as clients,
    ):
        victim.ask(b"")
        text = b"".join(line % aim for aim in AIMS for line in ASKED)
        send_all(clients, HEADERS + text * (TIMES // 45) + b"PING\r\n")
        until(clients, is_answered)
        assert victim.ask(b"") == []


def test_given_a_responder_when_asked_with_a_reply_to_others_then_it_may_not_send_it(
    tmp_path: Path,
) -> None:
    """Who may only respond is no way around one's own permissions: the reply is bounded."""
    users = USERS + (
        '[[authorization.users]]\nuser = "server"\npassword = "server"\n'
        'permissions = { subscribe = "mallory.>", allow_responses = true }\n'
    )
    server = HEADERS.replace(b"{", b'{"user":"server","pass":"server",')
    mallory = HEADERS.replace(b"{", b'{"user":"mallory","pass":"mallory",')
    with (
        beside(tmp_path, users) as broker,
        RawClient(broker.port, server, b"SUB mallory.ask 1\r\n") as responder,
        RawClient(broker.port, mallory) as asker,
    ):
        responder.ask(b"")
        asker.ask(b"PUB mallory.ask mallory.answer 0\r\n\r\n")
        assert responder.operation().reply == b"mallory.answer"
        assert responder.ask(b"PUB mallory.answer 2\r\nok\r\n") == []
        said = responder.ask(b"PUB mallory.answer 2\r\nok\r\nPUB beside.orders 2\r\nno\r\n")
        assert [one.verb for one in said] == ["-ERR", "-ERR"]


def test_given_answers_that_nobody_reads_when_asked_for_more_then_the_asker_is_cut_off(
    tmp_path: Path,
) -> None:
    limits: dict[str, Any] = {"max_pending": MIB, "write_deadline": "1s"}
    ask = b"PUB $SEQ.INFO r 0\r\n\r\n"
    with (
        beside(tmp_path, limits=limits) as broker,
        crowd(broker.port, 8, receive_buffer=4096) as clients,
    ):
        send_all(clients, HEADERS + b"SUB r 1\r\n" + ask * TIMES, reading=False)
        broker.until(lambda varz: varz["slow_consumers"] == len(clients))


def test_given_responders_when_asked_with_long_replies_then_little_of_them_is_kept(
    tmp_path: Path,
) -> None:
    """One request reaches all of them, and each remembers it: 40 times 8 MiB, if all were kept."""
    users = USERS + (
        '[[authorization.users]]\nuser = "server"\npassword = "server"\n'
        'permissions = { subscribe = "mallory.>", allow_responses = true }\n'
    )
    server = HEADERS.replace(b"{", b'{"user":"server","pass":"server",')
    mallory = HEADERS.replace(b"{", b'{"user":"mallory","pass":"mallory",')
    with (
        beside(tmp_path, users) as broker,
        crowd(broker.port, 40) as responders,
        RawClient(broker.port, mallory) as asker,
    ):
        send_all(responders, server + b"SUB mallory.ask 1\r\nPING\r\n")
        until(responders, is_answered)
        for begin in range(0, LONG_REPLIES, 64):
            for at in range(begin, begin + 64):
                asker.send(b"PUB mallory.ask %d.%b 0\r\n\r\n" % (at, b"x" * 3900))
            assert asker.ask(b"") == []
            for one in responders:
                one.heard.clear()
            send_all(responders, b"PING\r\n")
            until(responders, is_answered)
