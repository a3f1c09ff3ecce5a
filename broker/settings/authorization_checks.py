"""Checks the settings of authorization together: users, their credentials, their names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from broker.settings.authorization_settings import UserSettings
from seriatim.settings.checked import quoted
from seriatim.settings.secret_texts import ReferencedSecret

BCRYPT_PREFIXES = ("$2a$", "$2b$", "$2x$", "$2y$")
# The cost, a salt of 16 bytes (the last letter holds two bits of it) and a digest of 23 bytes.
_BCRYPT = re.compile(
    r"\$2[abxy]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}"
)
COST_MAX = 16
SHOWN_MAX = 5  # problems of users in one report


def authorization_relations(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    """Return every broken relation, in words."""
    problems = []
    users: tuple[UserSettings, ...] = values["authorization.users"]
    user, token = values["authorization.user"], values["authorization.token"]
    password = values["authorization.password"]

    def place(path: str) -> str:
        origin = origins.get(path, "default")
        return path if origin == "default" else origin

    if users and (user or token):
        path = "authorization.user" if user else "authorization.token"
        problems.append(
            f"{place(path)}: there are users as well; give this one as a user among them"
        )
    if user and token:
        problems.append(
            f"{place('authorization.token')}: there is a user as well; give one of the two"
        )
    if values["authorization.users_file"] and not (users or user or token):
        problems.append(
            f"{place('authorization.users_file')}: it has no user, so everybody could do"
            " everything; `seriatim user add` adds one, or leave the setting out"
        )
    if password and not user:
        problems.append(f"{place('authorization.password')}: there is no user for it; give --user")
    if user and not password and not values["tls.verify_and_map"]:
        problems.append(
            f"{place('authorization.user')}: has no password; give --pass, or"
            " authorization.password in the file"
        )
    for secret in ("authorization.password", "authorization.token"):
        if why := wrong_hash(values[secret]):
            problems.append(f"{place(secret)}: {why}")
    problems += users_problems(users, values["tls.verify_and_map"])
    problems += _of_nobody(values, place("authorization.no_auth_user"))
    return problems + _of_the_port(values, place("sequencer.user"))


def users_problems(users: Sequence[UserSettings], by_certificate: bool) -> list[str]:
    """Return what is wrong with users, each alone and all together, in words without a secret.

    `by_certificate`: certificates authenticate clients, so users need no password.
    """
    problems = []
    seen: set[str] = set()
    for at, one in enumerate(users, 1):
        # A text given as a public key may be a seed, which is secret.
        key_shown = one.nkey if one.nkey and not wrong_nkey(one.nkey) else ""
        name = f"user {quoted(one.user or key_shown)}" if one.user or key_shown else f"user {at}"
        if one.nkey and (one.user or one.password):
            problems.append(f"{name}: has an nkey, and a name or a password; give one of the two")
        elif one.nkey and (why := wrong_nkey(one.nkey)):
            problems.append(f"{name}: {why}")
        elif not one.nkey and not one.user:
            problems.append(f"{name}: has no name; give user and password, or nkey")
        elif one.user and not one.password and not by_certificate:
            problems.append(f"{name}: has no password; `seriatim user passwd` makes one")
        elif why := wrong_hash(one.password):
            problems.append(f"{name}: {why}")
        key = one.nkey or one.user
        if key and key in seen:
            problems.append(f"{name}: is there twice; leave out one of them")
        seen.add(key)
    if len(problems) > SHOWN_MAX:
        problems[SHOWN_MAX:] = [f"and {len(problems) - SHOWN_MAX} more problems with users"]
    return problems


def _of_nobody(values: Mapping[str, Any], place: str) -> list[str]:
    """Check that the user for clients without credentials is one of the users."""
    name = values["authorization.no_auth_user"]
    names = {one.user or one.nkey for one in values["authorization.users"]}
    if not name or name in names or name == values["authorization.user"]:
        return []
    return [f"{place}: {quoted(name)} is not one of the users; add it, or give another"]


def _of_the_port(values: Mapping[str, Any], place: str) -> list[str]:
    """Check that, with users, the port names one: its clients cannot authenticate."""
    users = {one.user or one.nkey for one in values["authorization.users"]}
    users |= {values["authorization.user"]} - {""}
    named = values["sequencer.user"]
    if named and named not in users:
        return [f"{place}: {quoted(named)} is not one of the users; add it, or give another"]
    closed = users or values["authorization.token"]
    if not values["sequencer.port"] or not closed or named or values["authorization.no_auth_user"]:
        return []
    return [
        f"{place}: is missing; cquencer's clients cannot authenticate, so say which user they are:"
        " give --sequencer_user NAME, or turn the port off"
    ]


def is_spelt_out(secret: str) -> bool:
    """True if the configuration itself contains a secret that can be used as it is."""
    return bool(secret) and not isinstance(secret, ReferencedSecret) and not is_hash(secret)


def is_hash(password: str) -> bool:
    """True if this is meant as a bcrypt hash, as nats-server sees it."""
    return password.startswith(BCRYPT_PREFIXES)


def wrong_hash(password: str) -> str:
    """Return what is wrong with a bcrypt hash; empty if nothing is, or for a plain password."""
    if not is_hash(password):
        return ""
    found = _BCRYPT.fullmatch(password)
    if found is None:
        return "is not a bcrypt hash, but begins like one; `seriatim user passwd` makes one"
    cost = int(found[1])
    if cost <= COST_MAX:
        return ""
    return f"its bcrypt cost is {cost}, so a login takes seconds; give 8 to {COST_MAX}"


def wrong_nkey(key: str) -> str:
    """Return what is wrong with the public key of a user; empty if nothing is."""
    from broker.settings.public_key import public_key_of

    try:
        public_key_of(key)
    except ValueError as wrong:
        return str(wrong)
    return ""
