"""nats-server's accounts, users and permissions, as users of ours.

A broker of ours has no accounts: its users share all subjects. So one account with users becomes
the users of the broker. The users of several accounts are left out, because together they would see
what accounts keep apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker.settings.authorization_checks import wrong_hash, wrong_nkey
from broker.settings.authorization_settings import PermissionSettings
from broker.settings.permission_tables import (
    PERMISSION_WORDS,
    RESPONSE_WORDS,
    read_permissions,
)
from seriatim.cli.from_nats.nats_syntax import NatsValue
from seriatim.cli.from_nats.translation import (
    KnownKeys,
    Rule,
    TranslatedUser,
    Translation,
    seconds,
)
from seriatim.settings.amounts import show_duration
from seriatim.settings.checked import WrongValue, quoted

APART: Final = (
    "accounts keep their subjects apart, and here all users share one order and all subjects; run a"
    " broker for each account, or add its users (`seriatim user add`) with permissions for subjects"
    " of their own"
)
NO_SYSTEM: Final = (
    "there is no system account; http_port has what it shows (docs/monitoring.md), with http_user"
)
CALLOUT: Final = (
    "no service is asked who may connect; add the users themselves (`seriatim user add`)"
)
# The connection types that exist here.
TYPES: Final = frozenset(("STANDARD", "WEBSOCKET"))
# nats-server's words for permissions; those of routes, `import` and `export`, mean the same.
VERBS: Final = {**PERMISSION_WORDS, "import": "publish", "export": "subscribe"}


def _timeout(found: Translation, value: NatsValue) -> None:
    found.take("authorization.timeout", value, "authorization.timeout")


def _users(found: Translation, value: NatsValue) -> None:
    add_users(found, value, "authorization.users")


def _defaults(found: Translation, value: NatsValue) -> None:
    set_defaults(found, value, "authorization.default_permissions")


def _callout(found: Translation, value: NatsValue) -> None:
    found.needs_users = True
    found.leave(value, "authorization.auth_callout", CALLOUT)


def _proxied(found: Translation, value: NatsValue) -> None:
    if value.raw is not False:
        found.leave(value, "authorization.proxy_required", "proxies do not sign connections here")


AUTHORIZATION: Final = KnownKeys(
    "authorization.",
    same={
        **dict.fromkeys(("user", "username"), "authorization.user"),
        **dict.fromkeys(("pass", "password"), "authorization.password"),
        "token": "authorization.token",
    },
    special={
        "timeout": _timeout,
        "users": _users,
        **dict.fromkeys(("default_permission", "default_permissions", "permissions"), _defaults),
        "auth_callout": _callout,
        "proxy_required": _proxied,
    },
)


def authorization(found: Translation, value: NatsValue) -> None:
    """Translate the block `authorization`."""
    table = found.table(value, "authorization")
    words = {key.lower(): one for key, one in table.items()}
    single = [words[one] for one in ("user", "username", "token") if one in words]
    is_single = bool(single) and single[0].raw != "" and "users" not in words
    found.needs_users |= is_single
    for word in ("default_permission", "default_permissions", "permissions"):
        if is_single and word in words:  # ours count for a single user, too
            found.leave(
                words[word],
                f"authorization.{word}",
                "has no effect on a single user or a token in nats-server; if it should have one,"
                " write it below [authorization.default_permissions]",
            )
            table = {key: one for key, one in table.items() if key.lower() != word}
    found.walk(table, AUTHORIZATION)
    if is_single:
        _check_single(found, single[0])


def _check_single(found: Translation, place: NatsValue) -> None:
    """Leave out a single user, or a token, that could not be one here."""
    user = found.values.get("authorization.user")
    password = found.values.get("authorization.password")
    token = found.values.get("authorization.token")
    secret = token or password
    why = wrong_hash(secret.value) if secret is not None else ""
    if user is not None and password is None and not _maps_certificates(found):
        why = "has no password; each user needs one here"
    if why:
        found.leave(place, f"authorization.{'token' if token else 'user'}", why)
        for word in ("user", "password", "token"):
            found.values.pop(f"authorization.{word}", None)


def accounts(found: Translation, value: NatsValue) -> None:
    """Translate the block `accounts`: the one that has users."""
    if isinstance(value.raw, list):
        found.leave(value, "accounts", APART)
        return
    table = found.table(value, "accounts")
    with_users = {}
    for name, account in table.items():
        if not isinstance(account.raw, dict) or account.is_used:
            if not account.is_used:
                found.leave(account, f"accounts.{name}", "is not a block; write { }")
        elif name == found.system_account:
            found.leave(account, f"accounts.{name}", NO_SYSTEM)
            # With no other account, nats-server lets in everybody all the same.
            is_alone = len(table) == 1
            found.needs_users |= _has_users(account.raw) and not is_alone
        elif _has_users(account.raw):
            with_users[name] = account
        else:
            found.leave(account, f"accounts.{name}", f"has no users; {APART}")
    found.needs_users |= bool(with_users)
    if len(with_users) == 1 and not found.users:
        ((name, account),) = with_users.items()
        _only_account(found, name, account)
        return
    for name, account in with_users.items():
        found.leave(account, f"accounts.{name}", APART)


def _has_users(account: Mapping[str, NatsValue]) -> bool:
    return any(key.lower() == "users" and one.raw != [] for key, one in account.items())


def _only_account(found: Translation, name: str, account: NatsValue) -> None:
    prefix = f"accounts.{name}."

    def users(found: Translation, value: NatsValue) -> None:
        add_users(found, value, f"{prefix}users")

    def defaults(found: Translation, value: NatsValue) -> None:
        set_defaults(found, value, f"{prefix}default_permissions")

    def limits(found: Translation, value: NatsValue) -> None:
        block = KnownKeys(
            f"{prefix}limits.",
            same={
                **dict.fromkeys(("max_connections", "max_conn"), "limits.max_connections"),
                **dict.fromkeys(
                    ("max_subscriptions", "max_subs"), "limits.max_subscriptions_total"
                ),
                **dict.fromkeys(("max_payload", "max_pay"), "limits.max_payload"),
            },
            missing=dict.fromkeys(("max_leafnodes", "max_leafs"), "there are no leaf nodes"),
        )
        before = {path: found.values[path] for path in block.same.values() if path in found.values}
        found.walk(found.table(value, f"{prefix}limits"), block)
        for path, given in before.items():  # those of the whole server hold as well
            found.values[path] = min(
                given, found.values[path], key=lambda one: one.value or 1 << 62
            )

    alone = "there are no accounts to share subjects with, and subjects are not mapped"
    block = KnownKeys(
        prefix,
        special={
            "users": users,
            "default_permissions": defaults,
            "limits": limits,
        },
        needless={
            "nkey": "an account has no key here, and only JWTs need it",
            "jetstream": "streams are the broker's: streams.enabled",
        },
        missing={
            **dict.fromkeys(("imports", "exports", "mappings", "maps"), alone),
            **dict.fromkeys(("msg_trace", "trace_dest"), "the way of a message is not traced"),
        },
    )
    assert isinstance(account.raw, dict)
    found.walk(account.raw, block)


def set_defaults(found: Translation, value: NatsValue, name: str) -> None:
    """Translate the permissions of users without any of their own."""
    permissions = _permissions(found, value, name)
    if permissions is None:
        # What they were is not known: nothing is allowed.
        permissions = PermissionSettings(publish_allow=(), subscribe_allow=())
        found.leave(value, name, "could not be translated, so users without permissions have none")
    found.defaults = (permissions, value.place)


def add_users(found: Translation, value: NatsValue, name: str) -> None:
    """Translate a list of users."""
    if not isinstance(value.raw, list):
        found.leave(value, name, "is not a list; write [ ]")
        return
    found.needs_users |= bool(value.raw)
    for at, one in enumerate(value.raw, 1):
        _user(found, one, f"{name}[{at}]")


def _user(found: Translation, value: NatsValue, name: str) -> None:
    """Translate one user, or note why it is left out."""
    table = found.table(value, name)
    if not table:
        return
    draft = _UserDraft(name)
    found.walk(table, draft.block())
    made = TranslatedUser(
        draft.texts.get("user", ""),
        draft.texts.get("password", ""),
        draft.texts.get("nkey", ""),
        draft.permissions,
        value.place,
    )
    why = _wrong_user(made, found)
    if draft.wider:
        why = f"its {', '.join(draft.wider)} cannot be kept; add it by hand"
    if why:
        shown = f"user {quoted(made.user or made.nkey)}" if made.user or made.nkey else name
        found.leave(value, shown, f"is left out: {why}")
    else:
        found.users[made.user or made.nkey] = made


@dataclass(slots=True)
class _UserDraft:
    """A user while its lines are read; `name` is where it is."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    permissions: PermissionSettings | None = None
    # The lines without which it could do more than before: they keep it from being a user.
    wider: list[str] = field(default_factory=list)

    def block(self) -> KnownKeys:
        """The keys of a user."""
        return KnownKeys(
            f"{self.name}.",
            special={
                **dict.fromkeys(("user", "username"), self._text("user")),
                **dict.fromkeys(("pass", "password"), self._password),
                "nkey": self._text("nkey"),
                **dict.fromkeys(
                    ("permission", "permissions", "authorization"), self._take_permissions
                ),
                **dict.fromkeys(
                    ("allowed_connection_types", "connection_types", "clients"), self._types
                ),
                "proxy_required": self._proxied,
            },
        )

    def _text(self, key: str) -> Rule:
        def rule(found: Translation, value: NatsValue) -> None:
            self.texts[key] = found.text(value, f"{self.name}.{key}")

        return rule

    def _password(self, found: Translation, value: NatsValue) -> None:
        self.texts["password"] = found.secret(value, f"{self.name}.password")

    def _take_permissions(self, found: Translation, value: NatsValue) -> None:
        self.permissions = _permissions(found, value, f"{self.name}.permissions")
        if self.permissions is None:
            self.wider.append("permissions")

    def _types(self, found: Translation, value: NatsValue) -> None:
        name = f"{self.name}.allowed_connection_types"
        allowed = {one.upper() for one in found.texts(value, name)}
        if not allowed & TYPES:
            self.wider.append("allowed_connection_types")
        elif not allowed >= TYPES:
            (only,) = allowed & TYPES
            found.leave(value, name, f"no user is bound to {only}: this one may connect in any way")

    def _proxied(self, found: Translation, value: NatsValue) -> None:
        if value.raw is not False:
            self.wider.append("proxy_required")


def _wrong_user(one: TranslatedUser, found: Translation) -> str:
    """Return what keeps a user from being one here; empty if nothing does."""
    if one.nkey:
        return wrong_nkey(one.nkey)
    if not one.user:
        return "it has no name"
    if one.user in found.users:
        return "there is a user of that name before it"
    if not one.password and not _maps_certificates(found):
        return "it has no password, and each user needs one here; add it with one"
    return wrong_hash(one.password)


def _maps_certificates(found: Translation) -> bool:
    """True if certificates say who a client is, so that users need no password."""
    given = found.values.get("tls.verify_and_map")
    return given is not None and bool(given.value)


def _permissions(found: Translation, value: NatsValue, name: str) -> PermissionSettings | None:
    """Translate permissions; None, and noted, if that is not possible."""
    if not isinstance(value.raw, dict):
        found.leave(value, name, "is not a block; write { }")
        return None
    tables: dict[str, Any] = {}
    try:
        for key, one in value.raw.items():
            verb = VERBS.get(key.lower(), key.lower())
            if verb in ("publish", "subscribe"):
                if subjects := _subjects(found, one, f"{name}.{key}"):
                    tables[verb] = subjects
            elif verb == "allow_responses":
                tables[verb] = _responses(one)
            elif not one.is_used:
                raise WrongValue(f"{quoted(key)} is not a permission of nats-server")
    except WrongValue as wrong:
        found.leave(value, name, str(wrong))
        return None
    problems: list[str] = []
    permissions = read_permissions(tables, "", "", problems)
    for problem in problems:
        found.leave(value, name, problem.partition(": ")[2])
    return None if problems else permissions


def _subjects(found: Translation, value: NatsValue, name: str) -> dict[str, list[str]]:
    """Return what is allowed and denied. Raises `WrongValue`."""
    given = value.raw if isinstance(value.raw, dict) else {"allow": value}
    subjects: dict[str, list[str]] = {}
    for key, one in given.items():
        word = key.lower()
        if word not in ("allow", "deny"):
            if one.is_used:
                continue
            raise WrongValue(f"{quoted(key)} is neither allow nor deny")
        entries = one.raw if isinstance(one.raw, list) else [one]
        texts = [entry.raw for entry in entries if isinstance(entry.raw, str)]
        if len(texts) < len(entries):
            raise WrongValue("a subject is not text; put quotes around it")
        if texts:
            subjects[word] = texts
        elif word == "allow":
            found.leave(
                value,
                name,
                "an empty list allows everything in nats-server, and still does; to allow nothing,"
                ' deny ">"',
            )
    return subjects


def _responses(value: NatsValue) -> Any:
    """Return `allow_responses` as our table has it. Raises `WrongValue`."""
    if isinstance(value.raw, bool):
        return value.raw
    if not isinstance(value.raw, dict):
        raise WrongValue("allow_responses is neither true, false nor a block")
    found: dict[str, Any] = {}
    for key, one in value.raw.items():
        word = RESPONSE_WORDS.get(key.lower(), key.lower())
        if word == "max":
            if not isinstance(one.raw, int) or isinstance(one.raw, bool):
                raise WrongValue(f"{key} is not a whole number")
            found[word] = max(one.raw, -1)
        elif word == "expires":
            expires = seconds(one.raw)
            found[word] = -1 if expires < 0 else show_duration(expires)
        elif not one.is_used:
            raise WrongValue(f"{quoted(key)} is neither max nor expires")
    return found
