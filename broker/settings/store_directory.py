"""The default directory of the journal, for the broker and for its tools.

$SERIATIM_STORE_DIR        which `seriatim serve` also uses
$XDG_STATE_HOME/seriatim   if that is an absolute path, as its specification demands
/var/lib/seriatim          for root
~/.local/state/seriatim    for everyone else
"""

import os
from collections.abc import Mapping
from contextlib import suppress

NAME = "seriatim"
VARIABLE = "SERIATIM_STORE_DIR"
ROOTS_DIR = "/var/lib/seriatim"


def default_store_dir(environment: Mapping[str, str] | None = None, uid: int | None = None) -> str:
    """Return the journal's directory, which need not exist; empty for a user without a home."""
    environment = os.environ if environment is None else environment
    uid = os.getuid() if uid is None else uid
    if environment.get(VARIABLE):
        return environment[VARIABLE]
    state = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        return os.path.join(state, NAME)
    if uid == 0:
        return ROOTS_DIR
    home = environment.get("HOME") or _home(uid)
    return os.path.join(home, ".local", "state", NAME) if os.path.isabs(home) else ""


def _home(uid: int) -> str:
    """Return a user's home directory as the system knows it; empty if it does not."""
    import pwd  # only if HOME is not set

    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_dir
    return ""
