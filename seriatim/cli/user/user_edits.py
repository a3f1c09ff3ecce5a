"""The changes of `seriatim user`: each finds the user, changes the file, and reports it."""

import os

from seriatim.cli.errors import CliError
from seriatim.cli.user.nkey_pair import NkeyPair, write_seed
from seriatim.cli.user.user_rights import UserRights
from seriatim.cli.user.users_change import change, layout_of
from seriatim.cli.user.users_layout import UsersLayout
from seriatim.cli.user.users_place import UsersPlace
from seriatim.settings.checked import closest, quoted


def check_new(place: UsersPlace, name: str) -> None:
    """Raise `CliError` if there is a user of this name."""
    _refuse_known(place, layout_of(place, may_be_missing=True), name)


def add_user(place: UsersPlace, name: str, hash: str, rights: UserRights) -> list[str]:
    """Add a user; an empty hash means no password."""
    user = {"user": name, **({"password": hash} if hash else {}), **rights.table()}

    def edit(layout: UsersLayout) -> UsersLayout:
        _refuse_known(place, layout, name)
        return layout.with_user(user)

    return _done(place, f"added user {name} to", change(place, edit, may_be_missing=True))


def add_key(
    place: UsersPlace, name: str, pair: NkeyPair, seed: str | None, rights: UserRights
) -> list[str]:
    """Add a user with this key; before that, write its seed to the file `seed`, if given."""
    written = []

    def edit(layout: UsersLayout) -> UsersLayout:
        for one in filter(None, (pair.public, name)):
            _refuse_known(place, layout, one)
        return layout.with_user({"nkey": pair.public, **rights.table()}, label=name)

    def before() -> None:
        if seed:
            write_seed(seed, pair.seed)
            written.append(seed)

    try:
        notes = change(place, edit, may_be_missing=True, before=before)
    except BaseException:
        for path in written:
            os.unlink(path)
        raise
    called = f"{name}, with key {pair.public}," if name else pair.public
    return _done(place, f"added user {called} to", notes)


def check_password(place: UsersPlace, name: str) -> None:
    """Raise `CliError` if this user cannot get another password."""
    _with_password(place, layout_of(place), name)


def set_password(place: UsersPlace, name: str, hash: str) -> list[str]:
    """Give a user another password."""

    def edit(layout: UsersLayout) -> UsersLayout:
        return layout.with_password(_with_password(place, layout, name), hash)

    return _done(place, f"changed the password of user {name} in", change(place, edit))


def remove_user(place: UsersPlace, name: str) -> list[str]:
    """Take a user out of the file."""
    notes = change(place, lambda layout: layout.without(_found(place, layout, name)))
    return _done(place, f"removed user {name} from", notes)


def _done(place: UsersPlace, what: str, notes: list[str]) -> list[str]:
    return [f"{what} {place.path}; {place.reload}", *notes]


def _refuse_known(place: UsersPlace, layout: UsersLayout, name: str) -> None:
    if layout.find(name) >= 0:
        raise CliError(
            f"{place.path} has a user {name} already; `seriatim user passwd` changes a password"
        )
    _refuse_elsewhere(place, name)


def _refuse_elsewhere(place: UsersPlace, name: str) -> None:
    """Raise `CliError` for a user in the settings, which these commands do not change."""
    if name in [one.user or one.nkey for one in place.users]:
        where = place.config or "the settings"
        raise CliError(
            f"user {name} is in {where}, which this command does not change; change it there"
            " (`seriatim user passwd` without a name prints a hash)"
        )


def _with_password(place: UsersPlace, layout: UsersLayout, name: str) -> int:
    """Return the user's index in the file. Raises `CliError` if it cannot have a password."""
    at = _found(place, layout, name)
    if "nkey" in layout.users[at]:
        raise CliError(
            f"user {name} in {place.path} has a key, and no password; to change that, remove the"
            " user and add it again"
        )
    return at


def _found(place: UsersPlace, layout: UsersLayout, name: str) -> int:
    """Return the user's index in the file. Raises `CliError`."""
    at = layout.find(name)
    if at >= 0:
        return at
    _refuse_elsewhere(place, name)
    names = [user.get("user") or user.get("username") for user in layout.users]
    close = closest(name, [one for one in names if isinstance(one, str)])
    hint = f"did you mean {close}?" if close else "`seriatim user list` lists them"
    raise CliError(f"{place.path} has no user {quoted(name)}; {hint}")
