"""The fuzzing targets: each accepts any bytes, and fails by an assertion or a crash."""

from collections.abc import Callable
from typing import NamedTuple

from fuzz import (
    case_cardinal,
    case_feed,
    case_frames,
    case_journal,
    case_logins,
    case_member,
    case_parser,
    case_plane,
    case_player,
    case_rights,
    case_sublist,
)


class Case(NamedTuple):
    """A target: `check` runs one input, of at most `max_len` bytes while fuzzing."""

    check: Callable[[bytes], None]
    max_len: int


CASES = {
    "cardinal": Case(case_cardinal.check, case_cardinal.MAX_LEN),
    "feed": Case(case_feed.check, case_feed.MAX_LEN),
    "frames": Case(case_frames.check, case_frames.MAX_LEN),
    "journal": Case(case_journal.check, case_journal.MAX_LEN),
    "logins": Case(case_logins.check, case_logins.MAX_LEN),
    "member": Case(case_member.check, case_member.MAX_LEN),
    "parser": Case(case_parser.check, case_parser.MAX_LEN),
    "plane": Case(case_plane.check, case_plane.MAX_LEN),
    "player": Case(case_player.check, case_player.MAX_LEN),
    "rights": Case(case_rights.check, case_rights.MAX_LEN),
    "sublist": Case(case_sublist.check, case_sublist.MAX_LEN),
}
