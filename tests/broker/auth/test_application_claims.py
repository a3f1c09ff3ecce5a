"""Names of applications: those that users claim are theirs alone, the others are everybody's."""

import pytest

from broker.auth.application_claims import ApplicationClaims
from broker.dataplane.user import User

ALICE = User("alice", b"", None, (b"billing", b"shop.*"))
BOB = User("bob", b"", None, (b"stock.>", b"shop.eu"))
EVE = User("eve", b"", None)


@pytest.fixture
def claims() -> ApplicationClaims:
    ours = ApplicationClaims()
    ours.learn([*ALICE.applications, *BOB.applications])
    return ours


@pytest.mark.parametrize(
    ("application", "users"),
    [
        ("billing", {"alice"}),
        ("Billing", {"alice", "bob", "eve", ""}),
        ("billing.x", {"alice", "bob", "eve", ""}),
        ("shop.us", {"alice"}),
        ("shop.eu", {"alice", "bob"}),
        ("shop.eu.1", {"alice", "bob", "eve", ""}),
        ("stock.a.b", {"bob"}),
        ("free", {"alice", "bob", "eve", ""}),
        ("", {"alice", "bob", "eve", ""}),
        ("a..b", {"alice", "bob", "eve", ""}),
    ],
)
def test_given_claims_then_only_their_users_may_use_the_name(
    claims: ApplicationClaims, application: str, users: set[str]
) -> None:
    for user in (ALICE, BOB, EVE, None):
        name = "" if user is None else user.name
        assert claims.may_use(user, application) == (name in users), name


def test_given_no_claims_then_everybody_may_use_every_name(claims: ApplicationClaims) -> None:
    assert ApplicationClaims().may_use(None, "billing")
    claims.learn([])
    assert claims.may_use(EVE, "billing")
