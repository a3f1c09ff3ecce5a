"""The states of the byte machine and its transition table, built from the verbs.

Each verb is a path of letters, in either case. What may follow the last letter is one of
three, as in nats-server:

    BLANKS   one blank or more, then the first byte of the arguments       PUB, SUB, ...
    LOOSE    any number of blanks, or none, then the arguments             CONNECT{...}, INFO
    REST     everything up to the line feed is ignored                     PING, PONG, +OK

A byte that no transition allows leads to BROKEN at once, without waiting for a line feed.
`python -m parser.table` prints the machine as a Mermaid state diagram. The diagram in
docs/protocol.md is that output; a test checks that they agree.
"""

from typing import Final

START: Final = 0
# The states where the table ends and the scan begins; machine.pxd repeats them as an enum.
(
    CONNECT_ARGUMENT,
    PUB_ARGUMENT,
    HPUB_ARGUMENT,
    SUB_ARGUMENT,
    UNSUB_ARGUMENT,
    INFO_ARGUMENT,
    ERR_ARGUMENT,
    PING_END,
    PONG_END,
    OK_END,
    BROKEN,
) = range(64, 75)
FIRST_FINAL: Final = CONNECT_ARGUMENT

BLANKS, LOOSE, REST = "blanks", "loose", "rest"
VERBS: Final[dict[str, tuple[str, int]]] = {
    "CONNECT": (LOOSE, CONNECT_ARGUMENT),
    "PUB": (BLANKS, PUB_ARGUMENT),
    "HPUB": (BLANKS, HPUB_ARGUMENT),
    "SUB": (BLANKS, SUB_ARGUMENT),
    "UNSUB": (BLANKS, UNSUB_ARGUMENT),
    "INFO": (LOOSE, INFO_ARGUMENT),
    "-ERR": (BLANKS, ERR_ARGUMENT),
    "PING": (REST, PING_END),
    "PONG": (REST, PONG_END),
    "+OK": (REST, OK_END),
}
FINAL_NAMES: Final = {
    CONNECT_ARGUMENT: "CONNECT_ARGUMENT",
    PUB_ARGUMENT: "PUB_ARGUMENT",
    HPUB_ARGUMENT: "HPUB_ARGUMENT",
    SUB_ARGUMENT: "SUB_ARGUMENT",
    UNSUB_ARGUMENT: "UNSUB_ARGUMENT",
    INFO_ARGUMENT: "INFO_ARGUMENT",
    ERR_ARGUMENT: "ERR_ARGUMENT",
    PING_END: "PING_END",
    PONG_END: "PONG_END",
    OK_END: "OK_END",
    BROKEN: "BROKEN",
}
_SPACE, _TAB, _LF = 32, 9, 10


class _Builder:
    """Adds states while the verbs are entered into the table."""

    def __init__(self) -> None:
        self.names: list[str] = ["START"]
        self.rows: list[bytearray] = [self._row(BROKEN)]

    @staticmethod
    def _row(otherwise: int) -> bytearray:
        return bytearray([otherwise]) * 256

    def state(self, name: str, otherwise: int = BROKEN) -> int:
        """Return the number of the state with that name; add the state if it is new."""
        if name not in self.names:
            assert len(self.names) < FIRST_FINAL, "the final states' numbers start at 64"
            self.names.append(name)
            self.rows.append(self._row(otherwise))
        return self.names.index(name)

    def verb(self, verb: str, ending: str, final: int) -> None:
        """Enter the path of one verb and what may follow it."""
        at = START
        for length, letter in enumerate(verb, 1):
            last = length == len(verb)
            if last and ending == LOOSE:
                onward = self.state(verb, otherwise=final)
            elif last and ending == REST:
                onward = self.state(verb)
                self.rows[onward][:] = bytes([onward]) * 256
                self.rows[onward][_LF] = final
            else:
                onward = self.state(verb[:length])
            for byte in letter.upper() + letter.lower():
                self.rows[at][ord(byte)] = onward
            at = onward
        if ending == BLANKS:
            blanks = self.state(f"{verb}_BLANKS", otherwise=final)
            self.rows[at][_SPACE] = self.rows[at][_TAB] = blanks
            at = blanks
        if ending != REST:
            self.rows[at][_SPACE] = self.rows[at][_TAB] = at


def _build() -> tuple[list[str], bytes]:
    builder = _Builder()
    for verb, (ending, final) in VERBS.items():
        builder.verb(verb, ending, final)
    return builder.names, b"".join(bytes(row) for row in builder.rows)


STATE_NAMES, TRANSITIONS = _build()


def name_of(state: int) -> str:
    """Return the name of a state, as the diagram shows it."""
    return FINAL_NAMES.get(state) or STATE_NAMES[state]


def _label(byte_values: list[int]) -> str:
    """The label of an arrow: letters of both cases as one, `blank`, `LF` or `any other byte`."""
    if len(byte_values) > 3:
        return "any other byte"
    names = {_SPACE: "blank", _TAB: "", _LF: "LF"}
    words = {names.get(value, chr(value).upper()) for value in byte_values}
    return " ".join(sorted(word for word in words if word))


def _safe(name: str) -> str:
    return name.replace("+", "PLUS_").replace("-", "MINUS_")


def mermaid() -> str:
    """The table, and what follows it, as a Mermaid state diagram; arrows to BROKEN are left out."""
    lines = ["stateDiagram-v2", "    direction LR", "    [*] --> START"]
    for state, name in enumerate(STATE_NAMES):
        arrows: dict[int, list[int]] = {}
        for byte, onward in enumerate(TRANSITIONS[state << 8 : (state + 1) << 8]):
            arrows.setdefault(onward, []).append(byte)
        for onward, byte_values in arrows.items():
            if onward != BROKEN:
                arrow = f"{_safe(name)} --> {_safe(name_of(onward))}"
                lines.append(f"    {arrow}: {_label(byte_values)}")
    # The rest after the verb is not in the table: see `_line` and `_payload` in machine.py.
    lines += [
        "    PUB_ARGUMENT --> PAYLOAD: line feed",
        "    HPUB_ARGUMENT --> PAYLOAD: line feed",
        "    PAYLOAD --> [*]: size bytes, CR, LF",
    ]
    lines += [
        f"    {name} --> [*]: line feed"
        for name in ("CONNECT_ARGUMENT", "SUB_ARGUMENT", "UNSUB_ARGUMENT", "INFO_ARGUMENT")
    ]
    lines += [f"    {name} --> [*]" for name in ("PING_END", "PONG_END", "OK_END")]
    return "\n".join(lines)


if __name__ == "__main__":
    print(mermaid())
