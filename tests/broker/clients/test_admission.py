"""How clients are let in: what waits meanwhile, what a reload changes, and that nothing is left.

What is said to whom is in tests/wire/test_users.py, beside nats-server.
"""

import base64
import gc
import json
import logging
from pathlib import Path
from typing import Any

import bcrypt
import nkeys
import pytest

from broker.auth import attempts
from broker.clients.session import Session
from tests.support.depth import compiled_only, depth
from tests.support.raw import QUIET
from tests.support.serving import WAIT_S, Broker, Client
from tests.support.twin_users import TwinUsers, connect
from tests.support.user_broker import Stranger, errors, login, payloads, serving_users, subjects

# bcrypt of "slow": a check takes a twentieth of a second, and the other eight times as long.
SLOW_HASH = "$2b$10$uycxe.S.fvuWhscvOhtcge8m28d.AK5IfBqwI8OZwCVPzaC3I5Oe2"
VERY_SLOW = "$2b$13$2Tj2J.aK4xyboeI.HGac9e.pH5lSNPXxcSwGlZ4L0Kma4/mwwwg4."
GUESSERS = depth(30, 100)
ROOT = {"user": "root", "password": "root"}
SLOW = {"user": "slow", "password": SLOW_HASH}
VIOLATION, TIMEOUT = "Authorization Violation", "Authentication Timeout"
ENDLESS = 300  # seconds to authenticate: as long as one may allow
CROWD = "Too Many Login Attempts, Try Again Later"


def table(*users: dict[str, Any], nobody: str = "", **more: Any) -> TwinUsers:
    return TwinUsers({"max_attempts": 0, "users": [ROOT, *users], **more}, no_auth_user=nobody)


def permitted(name: str, **permissions: Any) -> dict[str, Any]:
    return {"user": name, "password": name, "permissions": permissions}


def refused(what: str = VIOLATION) -> bytes:
    return f"-ERR '{what}'\r\n".encode()


def is_settled(broker: Broker) -> bool:
    """Whether nobody is being let in, and nothing of those who were is kept."""
    admission = broker.server.admission
    authenticator = admission.authenticator
    if admission.unknown or authenticator is None:
        return not admission.unknown
    hashes = authenticator._hashes
    return not (
        authenticator.waiting
        or hashes._checks
        or hashes._fresh
        or hashes._suspect
        or hashes._running
    )


# What waits meanwhile


@pytest.mark.parametrize("source", ["slow", "root"])
def test_given_much_after_a_connect_then_all_of_it_is_served_in_order(
    tmp_path: Path, source: str
) -> None:
    with serving_users(tmp_path, table(SLOW)) as (broker, _):
        reader = login(broker, "root")
        reader.ask(b"SUB flood.> 1\r\n")
        sender = Stranger(broker)
        count = 5000
        flood = b"".join(b"PUB flood.%d 100\r\n%0100d\r\n" % (n, n) for n in range(count))
        assert len(flood) > 500_000
        sender.send(connect(source, source) + flood + b"PING\r\n")
        assert sender.until(b"PONG\r\n").endswith(b"PONG\r\n")
        assert [int(one) for one in payloads(reader.ask(b""))] == list(range(count))
        session = broker.server.sessions[2]
        assert session.held_by == 0
        assert is_settled(broker)


def test_given_a_password_that_is_checked_then_nothing_is_reported_before_the_answer(
    tmp_path: Path,
) -> None:
    with serving_users(tmp_path, table(SLOW)) as (broker, _):
        good, bad = Stranger(broker), Stranger(broker)
        good.send(connect("slow", verbose=True) + b"PUB a 1\r\nx\r\nPING\r\n")
        bad.send(connect("slow", "bad", verbose=True) + b"PUB a 1\r\nx\r\nPING\r\n")
        assert good.until(b"PONG\r\n") == b"+OK\r\n+OK\r\nPONG\r\n"
        assert bad.rest() == refused()
        assert broker.server.last_number == 1


def test_given_a_hash_that_takes_longer_than_allowed_then_it_is_too_late_and_known_after(
    tmp_path: Path,
) -> None:
    users = table({"user": "slow", "password": VERY_SLOW}, timeout=0.1)
    with serving_users(tmp_path, users) as (broker, _):
        first = Stranger(broker)
        first.send(connect("slow") + b"PING\r\n")
        assert first.rest() == refused(CROWD)
        broker.until(lambda: is_settled(broker))
        broker.server.admission.authenticator.timeout = WAIT_S  # a busy machine takes its time
        login(broker, "slow").ask(b"")


def test_given_clients_that_leave_while_they_wait_then_nothing_of_them_stays(
    tmp_path: Path,
) -> None:
    with serving_users(tmp_path, table(SLOW)) as (broker, _):
        left = []
        for number in range(40):
            client = Stranger(broker, f"127.0.0.{number + 2}")
            client.send(connect("slow", f"wrong{number}") + b"PUB a 1\r\nx\r\n" * 1000)
            left.append(client)
        server = broker.server  # which may have refused the first of them by now
        broker.until(
            lambda: server.roster.total_connections == 40 and server.admission.authenticator.waiting
        )
        for client in left:
            client.close()
        broker.until(lambda: not broker.server.sessions)
        broker.until(lambda: is_settled(broker))
        gc.collect()
        assert [one for one in gc.get_objects() if isinstance(one, Session)] == []
        assert broker.server.last_number == 0


def test_given_strangers_that_come_and_go_then_no_timer_stays(tmp_path: Path) -> None:
    with serving_users(tmp_path, table()) as (broker, _):
        strangers = [Stranger(broker) for _ in range(50)]
        assert broker.server.admission.unknown == 50
        for client in strangers:
            client.close()
        broker.until(lambda: not broker.server.sessions)
        assert is_settled(broker)


@compiled_only
def test_given_a_flood_of_guesses_from_many_addresses_then_a_good_client_is_let_in_soon(
    tmp_path: Path,
) -> None:
    users = table({"user": "slow", "password": SLOW_HASH}, max_attempts=10)
    with serving_users(tmp_path, users) as (broker, _):
        for wave in range(2):  # those of the first one have failed when the second comes
            flood = [Stranger(broker, f"127.0.1.{number + 1}") for number in range(GUESSERS)]
            for number, client in enumerate(flood):
                client.send(connect("slow", f"{wave}.{number}"))
            broker.until(lambda: broker.server.admission.authenticator.waiting)
            if wave == 0:
                assert {client.rest() for client in flood} <= {refused(), refused(CROWD)}
                broker.until(lambda: is_settled(broker))
        before = broker.server.admission.failures
        login(broker, "slow").ask(b"")
        assert broker.server.admission.failures - before < 20, "others were checked before it"
        for client in flood:
            client.close()
        broker.until(lambda: is_settled(broker))


@pytest.fixture
def endless_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `ENDLESS` as the timeout, who must pause before a check gets no answer in this test."""
    monkeypatch.setattr(attempts, "PAUSE_S", ENDLESS / 2)
    monkeypatch.setattr(attempts, "PAUSE_MAX_S", ENDLESS / 2)


@pytest.mark.usefixtures("endless_pauses")
def test_given_a_guesser_then_clients_of_other_addresses_are_not_slowed_down(
    tmp_path: Path,
) -> None:
    with serving_users(tmp_path, table(max_attempts=3, timeout=ENDLESS)) as (broker, _):
        guessers = [Stranger(broker, "127.0.0.2") for _ in range(20)]
        for number, client in enumerate(guessers):
            client.send(connect("root", f"bad{number}"))
        for _ in range(20):
            login(broker, "root").ask(b"")
        assert broker.server.admission.authenticator.waiting > 0, "guessers pause"


def test_given_a_guesser_then_few_guesses_are_checked_and_the_others_are_refused(
    tmp_path: Path,
) -> None:
    with serving_users(tmp_path, table(max_attempts=3, timeout=5)) as (broker, _):
        guessers = [Stranger(broker, "127.0.0.2") for _ in range(20)]
        for number, client in enumerate(guessers):
            client.send(connect("root", f"bad{number}"))
        said = [client.rest() for client in guessers]
        assert said.count(refused()) < 10, "free ones, and one a second"
        assert said.count(refused()) + said.count(refused(CROWD)) == 20


def test_given_a_stop_while_passwords_are_checked_then_it_is_clean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_users(tmp_path, table(SLOW, max_attempts=1)) as (broker, _):
        clients = [Stranger(broker, f"127.0.0.{n % 3 + 2}") for n in range(12)]
        for number, client in enumerate(clients):
            client.send(connect("slow", f"wrong{number}"))
        broker.until(lambda: broker.server.admission.authenticator.waiting)
        broker.stop()
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.usefixtures("endless_pauses")
def test_given_many_clients_with_an_old_password_then_right_ones_at_their_address_need_not_wait(
    tmp_path: Path,
) -> None:
    """Twenty come again and again, as many as fail at once; the others have never been here."""
    pair = nkeys.from_seed(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER))
    users = table(SLOW, {"nkey": pair.public_key.decode()}, max_attempts=10, timeout=ENDLESS)
    with serving_users(tmp_path, users) as (broker, _):
        for user in ("slow", "root"):
            for wave in range(3):
                for client in [Stranger(broker) for _ in range(20)]:
                    client.send(connect(user, "old"))
                    if wave:
                        assert client.rest() == refused(), "known to be wrong, so at once"
            login(broker, "root").ask(b"")
            login(broker, "slow").ask(b"")
            signer = Stranger(broker)
            nonce = json.loads(signer.info.removeprefix(b"INFO "))["nonce"].encode()
            signed = base64.urlsafe_b64encode(pair.sign(nonce)).decode()
            signer.send(_raw({"nkey": pair.public_key.decode(), "sig": signed}) + b"PING\r\n")
            assert signer.until(b"PONG\r\n").endswith(b"PONG\r\n")


@pytest.mark.usefixtures("endless_pauses")
def test_given_a_guesser_at_the_same_address_then_who_was_in_before_need_not_wait(
    tmp_path: Path,
) -> None:
    with serving_users(tmp_path, table(SLOW, max_attempts=3, timeout=ENDLESS)) as (broker, _):
        login(broker, "slow").ask(b"")
        for at in range(200):
            guesser = Stranger(broker)
            guesser.send(connect("slow", f"guess {at}"))
        for _ in range(20):
            login(broker, "slow").ask(b"")
        login(broker, "root").ask(b"")  # another user, for the first time
        assert broker.server.admission.authenticator.waiting > 0, "the guesser pauses"


# A reload


def test_given_a_user_that_is_removed_or_changed_then_its_clients_are_closed_and_no_others(
    tmp_path: Path,
) -> None:
    a, b, c = ({"user": name, "password": name} for name in "abc")
    with serving_users(tmp_path, table(a, b, c)) as (broker, reload):
        clients = {name: Stranger(broker) for name in "abc"}
        for name, client in clients.items():
            client.send(connect(name) + b"PING\r\n")
            client.until(b"PONG\r\n")
        reload(table(a, {"user": "b", "password": "new"}))
        assert clients["b"].rest() == refused()
        assert clients["c"].rest() == refused()
        clients["a"].send(b"PING\r\n")
        assert clients["a"].until(b"PONG\r\n") == b"PONG\r\n"
        late = Stranger(broker)
        late.send(connect("b"))
        assert late.rest() == refused()
        login(broker, "b", "new")


@pytest.mark.parametrize("password", ["plain", "slow"])
def test_given_a_login_during_a_reload_then_it_ends_with_the_new_rights(
    tmp_path: Path, password: str
) -> None:
    secret = SLOW_HASH if password == "slow" else "plain"
    narrow = {"user": "u", "password": secret, "permissions": {"publish": "only"}}
    with serving_users(tmp_path, table({"user": "u", "password": secret})) as (broker, reload):
        client = Stranger(broker)
        client.send(connect("u", password))
        if password == "slow":
            broker.until(lambda: broker.server.admission.authenticator.waiting)
        else:
            client.send(b"PING\r\n")
            client.until(b"PONG\r\n")
        reload(table(narrow))
        client.send(b"PUB other 1\r\nx\r\nPING\r\n")
        assert b"Permissions Violation" in client.until(b"PONG\r\n")


@pytest.mark.parametrize("later", [(), ({"user": "slow", "password": "other"},)])
def test_given_a_login_during_a_reload_that_removes_its_user_then_it_is_refused(
    tmp_path: Path, later: tuple[dict[str, Any], ...]
) -> None:
    with serving_users(tmp_path, table(SLOW)) as (broker, reload):
        client = Stranger(broker)
        client.send(connect("slow") + b"PUB a 1\r\nx\r\n")
        broker.until(lambda: broker.server.admission.authenticator.waiting)
        reload(table(*later))
        assert client.rest() == refused()
        assert broker.server.last_number == 0


def test_given_authentication_is_turned_off_then_waiting_clients_are_served(
    tmp_path: Path,
) -> None:
    users = table(SLOW, permitted("p", publish="x"))
    with serving_users(tmp_path, users) as (broker, reload):
        silent, waiting, known = Stranger(broker), Stranger(broker), login(broker, "p")
        waiting.send(connect("slow", "wrong", verbose=True) + b"PUB a 1\r\nx\r\nPING\r\n")
        broker.until(lambda: broker.server.admission.authenticator.waiting)
        reload(None)
        assert waiting.until(b"PONG\r\n") == b"+OK\r\n+OK\r\nPONG\r\n"
        silent.send(QUIET + b"PUB a 1\r\nx\r\nPING\r\n")
        assert silent.until(b"PONG\r\n") == b"PONG\r\n"
        assert errors(known.ask(b"PUB a 1\r\nx\r\n")) == []
        assert broker.server.last_number == 3
        assert broker.server.admission.unknown == 0


def test_given_authentication_is_turned_on_then_only_clients_that_need_no_proof_stay(
    tmp_path: Path,
) -> None:
    for nobody in ("", "nob"):
        folder = tmp_path / (nobody or "none")
        folder.mkdir()
        with serving_users(folder, None) as (broker, reload):
            client = Stranger(broker)
            client.send(QUIET + b"SUB in 1\r\nSUB out 2\r\nPING\r\n")
            client.until(b"PONG\r\n")
            reload(table(permitted("nob", publish="ok", subscribe="in"), nobody=nobody))
            if not nobody:
                assert client.rest() == refused()
                continue
            root = login(broker, "root")
            root.ask(b"PUB in 1\r\nx\r\nPUB out 1\r\nx\r\n")
            client.send(b"PUB no 1\r\nx\r\nPING\r\n")
            said = client.until(b"PONG\r\n")
            assert b'Subscription to "out"' in said
            assert b"MSG in 1" in said
            assert b"MSG out" not in said
            assert b'Publish to "no"' in said


@pytest.mark.parametrize("nobody", ["", "nob"])
def test_given_the_first_users_then_clients_whose_connect_gave_right_credentials_stay(
    tmp_path: Path, nobody: str
) -> None:
    """As in nats-server, which keeps what CONNECT said."""
    with serving_users(tmp_path, None) as (broker, reload):
        stays = [login(broker, "slow"), login(broker, "p")]
        goes = [Stranger(broker) for _ in range(3)]
        for client, password in zip(goes, ("wrong", "slow ", "x"), strict=True):
            client.send(connect("slow", password) + b"SUB a 1\r\nPING\r\n")
            client.until(b"PONG\r\n")
        for staying in stays:
            staying.ask(b"SUB ok 1\r\nSUB no 2\r\n")
        user = permitted("p", publish="ok", subscribe="ok")
        hashed = {**SLOW, "permissions": user["permissions"]}
        reload(table(hashed, user, permitted("nob", publish="x"), nobody=nobody))
        # On a busy machine the PING two seconds after CONNECT may come before.
        assert [one.rest().removeprefix(b"PING\r\n") for one in goes] == [refused()] * 3
        for staying in stays:
            said = errors(staying.ask(b"PUB no 1\r\nx\r\n"))
            assert sorted(said) == [
                'Permissions Violation for Publish to "no"',
                'Permissions Violation for Subscription to "no" (sid "2")',
            ]
        assert [session.user_name for session in broker.server.sessions.values()] == ["slow", "p"]
        broker.until(lambda: is_settled(broker))


def test_given_a_password_that_is_hashed_by_a_reload_then_its_clients_stay(tmp_path: Path) -> None:
    with serving_users(tmp_path, table({"user": "slow", "password": "slow"})) as (broker, reload):
        client = login(broker, "slow")
        client.ask(b"SUB a 1\r\n")
        for users in (table(SLOW), table({"user": "slow", "password": "slow"})):
            reload(users)
            assert payloads(client.ask(b"PUB a 1\r\nx\r\n")) == [b"x"]
        reload(table({"user": "slow", "password": "other"}))
        broker.until(lambda: not broker.server.sessions)


def test_given_proof_becomes_necessary_then_clients_without_it_are_closed(
    tmp_path: Path,
) -> None:
    user = permitted("nob", publish="ok")
    with serving_users(tmp_path, table(user, nobody="nob")) as (broker, reload):
        nobody, proved = Stranger(broker), login(broker, "nob")
        nobody.send(QUIET + b"PING\r\n")
        nobody.until(b"PONG\r\n")
        reload(table(user))
        assert nobody.rest() == refused()
        proved.ask(b"")


def test_given_fewer_rights_then_subscriptions_end_with_an_error_each(tmp_path: Path) -> None:
    with serving_users(tmp_path, table({"user": "u", "password": "u"})) as (broker, reload):
        client, root = login(broker, "u"), login(broker, "root")
        client.ask(b"SUB a 1\r\nSUB b q 2\r\nSUB a.* 3\r\nSUB > 4\r\n")
        reload(table(permitted("u", subscribe={"allow": ["a", "a.>"], "deny": ["a.x"]})))
        root.ask(b"".join(b"PUB %b 1\r\n1\r\n" % one for one in (b"a", b"b", b"a.x", b"a.y")))
        said = client.ask(b"")
        assert sorted(errors(said)) == [
            'Permissions Violation for Subscription to ">" (sid "4")',
            'Permissions Violation for Subscription to "b" using queue "q" (sid "2")',
        ]
        assert sorted(subjects(said)) == ["a", "a.y"]
        reload(table({"user": "u", "password": "u"}))
        root.ask(b"PUB a.x 1\r\n2\r\n")
        assert subjects(client.ask(b"")) == ["a.x"], "the filter is gone"
        assert broker.server.plane.sublist.statistics()["subscriptions"] == 2
        reload(table(permitted("u", subscribe={"deny": ["*.x"]})))
        root.ask(b"PUB a.x 1\r\n3\r\nPUB a.y 1\r\n3\r\n")
        assert subjects(client.ask(b"")) == ["a.y"]


def test_given_routes_that_were_allowed_then_a_reload_forbids_them_at_once(tmp_path: Path) -> None:
    wide, narrow = (permitted("u", publish=subject) for subject in ("a.>", "a.1"))
    with serving_users(tmp_path, table(wide)) as (broker, reload):
        client = login(broker, "u")
        batch = b"PUB a.1 1\r\nx\r\nPUB a.2 1\r\nx\r\n"
        assert errors(client.ask(batch * 2)) == []
        reload(table(narrow))
        assert errors(client.ask(batch * 2)) == ['Permissions Violation for Publish to "a.2"'] * 2
        reload(table(wide))
        assert errors(client.ask(batch * 2)) == []
        reload(table({"user": "u", "password": "u"}))
        assert errors(client.ask(b"PUB b 1\r\nx\r\n")) == []


def test_given_a_reload_that_changes_nothing_then_open_requests_may_still_be_answered(
    tmp_path: Path,
) -> None:
    users = table(permitted("svc", subscribe="req", allow_responses=True))
    with serving_users(tmp_path, users) as (broker, reload):
        service, root = login(broker, "svc"), login(broker, "root")
        service.ask(b"SUB req 1\r\n")
        root.ask(b"SUB rep 1\r\nPUB req rep 1\r\nx\r\n")
        reload(users)
        assert errors(service.ask(b"PUB rep 1\r\nx\r\n")) == []
        assert subjects(root.ask(b"")) == ["rep"]


# What is logged, and shown

SECRET_HASH = bcrypt.hashpw(b"SecretHashed", bcrypt.gensalt(4)).decode()


def clients_with_secrets(broker: Broker) -> list[Client]:
    """Log in and fail in every way, each with a secret of its own."""
    for claim in (
        {"user": "root", "pass": "SecretWrong"},
        {"user": "nobody", "pass": "SecretUnknown"},
        {"auth_token": "SecretToken"},
        {"nkey": "SecretKey", "sig": "SecretSignature"},
        {"jwt": "SecretJwt"},
        {"user": "root", "pass": "SecretBoth", "auth_token": "SecretBoth2", "protocol": 9},
    ):
        refused_one = Stranger(broker)
        refused_one.send(connect(**claim, verbose=True) if "user" not in claim else _raw(claim))
        refused_one.rest()
    torn = Stranger(broker)
    torn.send(b'CONNECT {"user":"root","pass":"SecretTorn')
    torn.send(b'Half"}\r\nPING\r\n')
    torn.rest()
    good = [login(broker, "plain", "SecretPlain"), login(broker, "hashed", "SecretHashed")]
    for client in good:
        client.ask(b"SUB forbidden 1\r\nPUB forbidden 1\r\nx\r\n")
    return good


def _raw(claim: dict[str, Any]) -> bytes:
    import json

    return f"CONNECT {json.dumps(claim)}\r\n".encode()


def test_given_every_way_to_log_in_then_no_secret_is_in_the_log_or_in_what_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    users = table(
        {"user": "plain", "password": "SecretPlain", "permissions": {"publish": "x"}},
        {"user": "hashed", "password": SECRET_HASH, "permissions": {"subscribe": "x"}},
    )
    flags = {"debug": True, "trace": True}
    with serving_users(tmp_path, users, flags) as (broker, reload):
        clients_with_secrets(broker)
        shown = [repr(session.options) for session in broker.server.sessions.values()]
        shown += [repr(vars(broker.server.admission.authenticator.users)["_users"])]
        shown += [repr(broker.server.settings.authorization), repr(broker.server.settings)]
        assert any("SecretPlain" in one for one in shown) is False
        reload(table())
        text = caplog.text + "".join(shown[:-2])
    assert "CONNECT" in text
    assert "Secret" not in text.replace("user 'Secret", "")
    assert SECRET_HASH not in text


@pytest.mark.parametrize("name", ["a\r\nFAKE LINE", "\x1b[31mred", "\u202eevil", "\ud800", "a\0b"])
def test_given_a_name_with_any_characters_then_the_log_has_one_printable_line_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    with serving_users(tmp_path, table()) as (broker, _):
        client = Stranger(broker)
        client.send(connect(name, "x"))
        assert client.rest() == refused()
        lines = [one.getMessage() for one in caplog.records if "Failure" in one.getMessage()]
    assert len(lines) == 1
    assert lines[0].isprintable()


def test_given_half_a_surrogate_anywhere_then_a_claim_is_wrong_and_nothing_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_users(tmp_path, table(SLOW)) as (broker, _):
        for claim in ({"user": "root"}, {"user": "slow"}, {"user": "\ud800"}, {}):
            for place in ("pass", "auth_token", "nkey", "sig", "name"):
                client = Stranger(broker)
                client.send(_raw({"pass": "x", **claim, place: "\ud800"}))
                assert client.rest() == refused()
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
