"""The kinds of subject that the data plane tells apart."""

import pytest

from broker.dataplane.kinds import (
    ACKNOWLEDGED,
    CONTROL,
    EXCLUDED,
    ORDINARY,
    RESERVED,
    UNMATCHABLE,
    Classifier,
    is_reserved_reply,
)


@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        (b"orders", ORDINARY),
        (b"$SEQ.", CONTROL),
        (b"$SEQ.PUB.a", ACKNOWLEDGED),
        (b"$SEQ.PUB.", CONTROL),
        (b"$SEQ.PUB.a.*", CONTROL),
        (b"$SEQ.PUB.a..b", CONTROL),
        (b"$SEQ.PUB.one", CONTROL),
        (b"$SEQ.PUB.$SEQ.PUB.a", CONTROL),
        pytest.param(b"$SEQ.PUB." * 9999 + b"a", CONTROL, id="nested"),
        (b"$SEQ", ORDINARY),
        (b"$SEQS.a", ORDINARY),
        (b"$seq.a", ORDINARY),
        (b"_GR_.", UNMATCHABLE),
        (b"_GR_.x", RESERVED),
        (b"$GR.", UNMATCHABLE),
        (b"$GR.x", RESERVED),
        (b"$NRG.", RESERVED),
        (b"$NRG.x", RESERVED),
        (b"_R_.x", ORDINARY),
        (b"$SYS.x", ORDINARY),
        (b"$JS.API.x", ORDINARY),
        (b"_INBOX.x", EXCLUDED),
        (b"_INBOX", ORDINARY),
        (b"tick.1", EXCLUDED),
        (b"tick.1.2", ORDINARY),
        (b"one", EXCLUDED),
        (b"", UNMATCHABLE),
        (b".", UNMATCHABLE),
        (b".a", UNMATCHABLE),
        (b"a.", UNMATCHABLE),
        (b"a..b", UNMATCHABLE),
        (b"$SYS..x", UNMATCHABLE),
        (b"tick..1", UNMATCHABLE),
        (b"a.*.>", ORDINARY),
        (b">", ORDINARY),
    ],
)
def test_given_a_subject_then_it_is_of_this_kind(subject: bytes, kind: int) -> None:
    assert Classifier([b"_INBOX.>", b"tick.*", b"one"]).kind_of(subject) == kind


def test_given_patterns_that_take_in_the_brokers_own_subjects_then_those_stay_its_own() -> None:
    kinds = Classifier([b">"])
    assert kinds.kind_of(b"$SEQ.PUB.a") == CONTROL
    assert kinds.kind_of(b"_GR_.x") == RESERVED
    assert kinds.kind_of(b"anything") == EXCLUDED


@pytest.mark.parametrize(
    ("subject", "watched", "kind"),
    [
        (b"$SYS.REQ.SERVER.PING", True, CONTROL),
        (b"$SEQ.PUB.$SYS.REQ.SERVER.PING", True, CONTROL),
        (b"$SYS.REQ.SERVER.PING", False, ORDINARY),
        (b"$SYS.REQ.SERVER", True, ORDINARY),
        (b"$SYS.REQ.ACCOUNT.A.CONNZ", True, ORDINARY),
    ],
)
def test_given_monitoring_then_its_requests_are_the_brokers_own(
    subject: bytes, watched: bool, kind: int
) -> None:
    assert Classifier(system=watched).kind_of(subject) == kind


def test_given_nothing_excluded_then_all_else_is_ordinary() -> None:
    assert Classifier().kind_of(b"_INBOX.x") == ORDINARY


@pytest.mark.parametrize(
    ("reply", "reserved"),
    [
        (b"_R_.", True),
        (b"_R_.x", True),
        (b"_R_", False),
        (b"_GR_.", False),
        (b"_GR_.x", True),
        (b"$GR.x", True),
        (b"$JS.ACK.", False),
        (b"$JS.ACK.x", True),
        (b"$NRG.x", False),
        (b"_INBOX.x", False),
        (b"$SEQ.x", False),
    ],
)
def test_given_a_reply_then_it_is_reserved_where_nats_server_has_it_so(
    reply: bytes, reserved: bool
) -> None:
    assert is_reserved_reply(reply) is reserved
