"""Changes a users' file: one command at a time, checked as the broker reads it, all or nothing.

The new file is written beside the old one, reaches the disk, and takes its place with the same
mode and owner. The folder is locked meanwhile (`flock`), which needs no lock file.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from broker.settings.user_tables import content_of, users_of
from sequencer.journal.disk import pwrite_all, replacing
from seriatim.cli.errors import CliError
from seriatim.cli.user.users_layout import UsersLayout
from seriatim.cli.user.users_place import FILE, UsersPlace
from seriatim.settings.checked import WrongValue

LOCK_S: Final = 5.0  # a change takes milliseconds
RETRY_S: Final = 0.02


def layout_of(place: UsersPlace, may_be_missing: bool = False) -> UsersLayout:
    """Read the file's current layout. Raises `CliError`."""
    if may_be_missing and not os.path.lexists(place.path):
        return UsersLayout.empty(place.path)
    try:
        return UsersLayout(place.path, content_of(place.path))
    except WrongValue as wrong:
        raise CliError(f"{place.path}: {wrong}") from None


def change(
    place: UsersPlace,
    edit: Callable[[UsersLayout], UsersLayout],
    may_be_missing: bool = False,
    before: Callable[[], None] = lambda: None,
) -> list[str]:
    """Call `before`, then replace the file by the result of `edit`; return notes for the user.

    Raises `CliError`; then the file is as it was.
    """
    with _locked(place.path):
        is_new = not os.path.lexists(place.path)
        old = layout_of(place, may_be_missing)
        _check_access(place.path)
        new = edit(old)
        notes = _check(place, old, new)
        before()
        try:
            _replace(place.path, new.text.encode())
        except OSError as error:
            raise CliError(f"{place.path}: cannot be written: {error.strerror}") from error
    if is_new:
        named = "" if place.values.get(FILE) else f", and name it in {FILE} (--users_file)"
        notes.append(f"{place.path} is new: let the broker's user read it{named}")
    return notes


def _check(place: UsersPlace, old: UsersLayout, new: UsersLayout) -> list[str]:
    """Refuse what the broker would refuse, unless it refused it before, too."""
    problems: list[str] = []
    users, defaults = users_of(new.tables_here, place.path, problems)
    if defaults is not None and place.default_permissions is not None:
        problems.append("default_permissions are in the configuration, too; leave out one of them")
    if not (users or place.users or place.values.get("authorization.token")):
        problems.append(
            "it would have no user, so everybody could do everything; to turn authentication"
            " off, take authorization.users_file out of the settings"
        )
    before = set(place.problems(users_of(old.tables_here, place.path, [])[0]))
    known = [problem for problem in place.problems(users) if problem in before]
    alone = UsersPlace(place.path).problems(users)
    problems += [one for one in place.problems(users) if one not in known or one in alone]
    if problems:
        lines = problems[0] if len(problems) == 1 else "".join(f"\n  {one}" for one in problems)
        raise CliError(f"{place.path} is not changed: {lines}")
    return [f"the broker still refuses its settings: {problem}" for problem in known]


def _check_access(path: str) -> None:
    """Raise `CliError` for a read-only file, although it could be replaced."""
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise CliError(f"{path}: you may not write this file; change its mode, or be its owner")


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Lock the folder against other commands while inside. Raises `CliError`."""
    folder = os.path.dirname(path)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise CliError(
            f"{path}: its folder cannot be opened: {error.strerror}; make it, or give another file"
        ) from None
    try:
        until = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pass
            except OSError as error:
                raise CliError(
                    f"{path}: its folder cannot be locked: {error.strerror}; the file system has"
                    " no locks (flock), so change a copy elsewhere, and put it there"
                ) from None
            if time.monotonic() > until:
                raise CliError(
                    f"{path}: another command is changing it, and does not end; try again later"
                )
            time.sleep(RETRY_S)
        yield
    finally:
        os.close(descriptor)


def _replace(path: str, content: bytes) -> None:
    """Replace a file, which keeps its mode and owner, or create it for its owner alone."""
    found = os.stat(path) if os.path.exists(path) else None
    with replacing(path, mode=0o600) as descriptor:
        if found is not None:
            if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, found.st_uid, found.st_gid)
            os.fchmod(descriptor, found.st_mode & 0o7777)
        pwrite_all(descriptor, content, 0)
