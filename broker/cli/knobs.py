"""The knobs of `broker.settings` as a user meets them: path, flag, variable and text.

    path       limits.max_payload           in the TOML file
    variable   SERIATIM_LIMITS_MAX_PAYLOAD  in the environment
    flags      --max_payload                on the command line, the last one is the long name

Nothing is written down twice: all of it comes from the fields' metadata.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from broker.settings import JournalSettings, Limits, Listener, SequencerSettings, Settings

PREFIX = "SERIATIM_"
SECTIONS: dict[str, type] = {
    "": Settings,
    "journal": JournalSettings,
    "limits": Limits,
    "sequencer": SequencerSettings,
}


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: where it is set, what it may be, and what it is for."""

    path: str
    kind: str
    default: Any
    about: str
    zero: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def section(self) -> str:
        """The TOML table it stands in; empty for the top level."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its key in that table."""
        return self.path.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return PREFIX + self.path.upper().replace(".", "_")

    @property
    def parameter(self) -> str:
        """Its name as a parameter of a function."""
        return self.path.replace(".", "_")

    @property
    def flag(self) -> str:
        """Its long flag."""
        return self.flags[-1]


def _knob(path: str, field: "dataclasses.Field[Any]") -> Knob:
    return Knob(path=path, default=field.default, **field.metadata)


def _knobs() -> dict[str, Knob]:
    found = {}
    for section, table in SECTIONS.items():
        for field in dataclasses.fields(table):
            if field.metadata:
                path = f"{section}.{field.name}" if section else field.name
                found[path] = _knob(path, field)
    return found


KNOBS = _knobs()
LISTENER_KNOBS = {f.name: _knob(f"listener.{f.name}", f) for f in dataclasses.fields(Listener)}
LISTENER_FLAG = "--listen"
LISTENER_VARIABLE = PREFIX + "LISTEN"
LISTENER_ABOUT = (
    "One more address to listen on, with a frame of its own. May be given several times; the"
    " frame is the broker's `frame` when it is left out."
)
