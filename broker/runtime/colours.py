"""The rule for colours: on a terminal, unless its user does not want any."""

from collections.abc import Mapping


def wants_colours(is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """Return True for a terminal, unless NO_COLOR, CLICOLOR=0 or TERM=dumb says otherwise.

    FORCE_COLOR wins over all but NO_COLOR: with it, a pipe gets colours, too.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return is_terminal and environment.get("CLICOLOR") != "0" and environment.get("TERM") != "dumb"
