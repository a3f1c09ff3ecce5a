r"""Regular expressions for prefixes, as automata: the subset that Python and Go match alike.

    pattern   alternatives with |, of: a character  .  [a-z]  [^/]  \d \D \w \W  \. (any
              punctuation escaped)  \t \n \r \x41  (group)  (?:group)
              each with * + ? {2} {2,} {2,5}, and a trailing ? to match as few as possible
              ^ at the very beginning means nothing: all patterns are anchored there

Not supported: $ \b \A \Z, lookahead and lookbehind, because their match depends on the text around,
and a consumer must find the same prefix that the producer counted; backreferences, flags and \s,
which differ between the two; an unbounded repetition of something that may be empty, which `re` and
Go match differently. Everything is ASCII: \w is [0-9A-Za-z_].

Two questions about patterns are answered for all possible keys, by walking both automata at once:
is there a key that begins with a match of both (`overlap`), and does every key that begins with a
match of one begin with a match of the other (`covers`). A pattern has at most 2000 states, and a
walk 300 000 steps; beyond that it is refused (`TooComplex`).
"""

# Theory of operation
#
# A pattern is parsed into a tree, and the tree becomes an automaton, from its end to its beginning:
# a part can only be made when it is known where it goes on. For `ab?`:
#
#     start          2                  1                0
#     ( ) ---a---> ( ) --- free ---> ( ) ---b---> (( )) --- any character --.
#                   `------- free ------------------^ ^---------------------'
#
# A state consumes a character of `chars` and goes on at `after`, or it goes on without one at each
# of `free`, in the order in which `re` would try: that is all that greedy and lazy mean here. State
# 0 consumes everything, because a key may go on in any way after the prefix.
#
# `overlap` asks if some key begins with a match of both. Both automata read the same key, so it
# walks over pairs of states, one of each, breadth first. A step needs a character that both can
# consume; the first time that the pair (0, 0) is reached, the way there spells a shortest such key.
# It goes into the error, as an operator believes an example sooner than a proof.
#
# `covers` asks if every match of `other` is one of `one`, too. Pairs are not enough: `other` has
# matched, but which of the states of `one` should have? So it walks over pairs of a state of
# `other` and the set of all states that `one` may be in after the same key:
#
#     a state of `one` in the set is 0     `one` has matched; whatever follows, this is fine
#     the state of `other` is 0            `other` has matched, and `one` has not: no
#     no pair is left                      yes
#
# Characters are tried by ranges: inside a range that no state of the set distinguishes, all behave
# alike, so the first of each is enough (`_borders`).
#
# Sets can become many: a pattern of n states has up to 2^n of them. So the steps are counted, and a
# pair of patterns that takes too many is refused; the error names both.

from collections import deque
from itertools import product
from typing import Any

ANY_MAX = 0x10FFFF
STATES_MAX = 2000
STEPS_MAX = 300_000  # some tenths of a second
REPEAT_MAX = 1000  # as Go has it
DEPTH_MAX = 50  # groups in groups

Ranges = tuple[tuple[int, int], ...]  # of characters, sorted, apart from each other
Tree = tuple[Any, ...]  # a parsed part: its kind, its content, the bounds of a repetition

ANY: Ranges = ((0, ANY_MAX),)
LINE: Ranges = ((0, 9), (11, ANY_MAX))
DIGIT: Ranges = ((48, 57),)
WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
CONTROL = {"a": 7, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
NICE: list[int] = [*map(ord, "ab0/xyz"), *range(0x21, 0x7F)]  # of an example, if they can be
SURROGATES = (0xD800, 0xDFFF)
SPECIAL = "^$.*+?{}[]()|\\"
AROUND = "what it matches depends on the text around it"  # but the producer cuts the key off there
CHARACTERS = "write the characters themselves, as in [0-9A-Za-z]"
NOT_TAKEN = {  # escapes of Go that are refused, and why
    **dict.fromkeys("bBAzZ", AROUND),
    **dict.fromkeys("pP", f"Unicode tables differ; {CHARACTERS}"),
    **dict.fromkeys("sS", "Go and Python define it differently; write [ \\t\\n], or what is meant"),
    "C": f"keys are text, not octets; {CHARACTERS}",
    "Q": "write \\ before each character that is punctuation",
}


class PatternError(ValueError):
    """An invalid or unsupported regular expression: where and why."""


class TooComplex(PatternError):
    """A pattern with too many states, or a walk with too many steps."""


def inverse(ranges: Ranges) -> Ranges:
    """The characters outside of these ranges."""
    found, at = [], 0
    for low, high in ranges:
        if at < low:
            found.append((at, low - 1))
        at = high + 1
    return tuple([*found, (at, ANY_MAX)] if at <= ANY_MAX else found)


def union(ranges: list[tuple[int, int]]) -> Ranges:
    """Sort ranges, and merge adjacent ones."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def common(one: Ranges, other: Ranges) -> Ranges:
    """The characters in both."""
    both = [(max(a, c), min(b, d)) for a, b in one for c, d in other]
    return tuple(sorted((low, high) for low, high in both if low <= high))


class Pattern:
    """A pattern as an automaton: states are numbers, 0 is where a match ends.

    A state leads to those of `free` without a character, the preferred first, or with one of
    `chars` to `after`. After its match a key may continue in any way: state 0 consumes any
    character and stays.
    """

    __slots__ = ("_behind", "after", "chars", "free", "start", "text")

    def __init__(self, text: str) -> None:
        """Raises `PatternError`."""
        self.text = text
        self.free: list[tuple[int, ...]] = []
        self.chars: list[Ranges] = []
        self.after: list[int] = []
        self._behind: dict[int, frozenset[int]] = {}
        self.start = self.state(ANY, 0)
        self.start = _PatternReader(self).read(self.start)

    def state(self, chars: Ranges, after: int, *free: int) -> int:
        """A new state. Raises `TooComplex`."""
        if len(self.free) == STATES_MAX:
            raise TooComplex(f"{self.text!r} is too long: it has more than {STATES_MAX} states")
        self.free.append(free)
        self.chars.append(chars)
        self.after.append(after)
        return len(self.free) - 1

    def reach(self, states: list[int]) -> frozenset[int]:
        """The states that consume a character, reachable from these without one."""
        seen, found = set(states), set()
        while states:
            state = states.pop()
            if self.chars[state]:
                found.add(state)
            more = [one for one in self.free[state] if one not in seen]
            seen.update(more)
            states.extend(more)
        return frozenset(found)

    def start_states(self) -> frozenset[int]:
        """Return the states at the beginning of a match."""
        return self.reach([self.start])

    def step(self, states: frozenset[int], char: int) -> frozenset[int]:
        """Return the states after a character."""
        return self.reach(
            [
                self.after[state]
                for state in states
                if any(low <= char <= high for low, high in self.chars[state])
            ]
        )

    def behind(self, state: int) -> frozenset[int]:
        """The states that consume the character after this state's."""
        if state not in self._behind:
            self._behind[state] = self.reach([self.after[state]])
        return self._behind[state]

    def matches(self, key: str) -> bool:
        """True if a key begins with a match: the reference for testing other answers."""
        states = self.start_states()
        for char in key:
            states = self.step(states, ord(char))
        return 0 in states


class _PatternReader:
    """Parses a pattern from left to right, and creates its states, each with its successors.

    A state is created after the one it leads to, so the pattern is first parsed into a tree.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.text = pattern.text
        self.at = 1 if self.text.startswith("^") else 0
        self.depth = 0

    def read(self, after: int) -> int:
        tree = self._alternatives()
        if self.at < len(self.text):
            raise self._error("a ) without (")
        return self._states(tree, after)

    def _error(self, reason: str) -> PatternError:
        return PatternError(f"{self.text!r}, character {self.at + 1}: {reason}")

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        self.at += len(word) * found
        return found

    def _alternatives(self) -> Tree:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self._error(f"more than {DEPTH_MAX} nested groups")
        found = [self._row()]
        while self._skip("|"):
            found.append(self._row())
        self.depth -= 1
        return ("|", found)

    def _row(self) -> Tree:
        found = []
        while self._next() not in ("", "|", ")"):
            found.append(self._repeated(self._one()))
        return ("", found)

    def _one(self) -> Tree:
        if self._skip("("):
            if self._next() == "?" and not self._skip("?:"):
                raise self._error(
                    "of (? only (?: is supported; instead of flags, write both cases as in [Aa]"
                )
            inner = self._alternatives()
            if not self._skip(")"):
                raise self._error("a group is not closed")
            return inner
        if self._skip("["):
            return ("chars", self._set())
        if self._skip("."):
            return ("chars", LINE)
        if self._next() == "\\":
            return ("chars", self._escaped())
        if self._next() in SPECIAL:
            why = f": {AROUND}" if self._next() in "^$" else ""
            raise self._error(
                f"{self._next()} cannot stand here{why}; a plain one is \\{self._next()}"
            )
        self.at += 1
        char = ord(self.text[self.at - 1])
        return ("chars", ((char, char),))

    def _escaped(self) -> Ranges:
        self.at += 1
        char = self._next()
        self.at += 1
        if char in "dDwW" and char:
            ranges = DIGIT if char in "dD" else WORD
            return ranges if char.islower() else inverse(ranges)
        if char == "x":
            digits = self.text[self.at : self.at + 2]
            if len(digits) != 2 or not all(one in "0123456789abcdefABCDEF" for one in digits):
                raise self._error("two hexadecimal digits follow \\x")
            self.at += 2
            return ((int(digits, 16),) * 2,)
        code = CONTROL.get(char, ord(char) if char else 0)
        if not char or (char not in CONTROL and (char.isalnum() or not char.isascii())):
            self.at -= 1
            why = f": {NOT_TAKEN[char]}" if char in NOT_TAKEN else ""
            raise self._error(f"\\{char} is not supported{why}" if char else "nothing follows \\")
        return ((code, code),)

    def _set(self) -> Ranges:
        inverted = self._skip("^")
        found: list[tuple[int, int]] = []
        first = self.at
        while not self._skip("]"):
            if not self._next():
                raise self._error("a set is not closed")
            low = self._of_set(first)
            if self._next() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._of_set(first)
                if low[0][0] != low[-1][1] or high[0][0] != high[-1][1] or low > high:
                    raise self._error("a range goes from one character to a later one")
                found.append((low[0][0], high[0][1]))
            else:
                found += low
        if self.at == first + 1:
            raise self._error("a set is empty")
        return inverse(union(found)) if inverted else union(found)

    def _of_set(self, first: int) -> Ranges:
        char = self._next()
        if char == "\\":
            return self._escaped()
        last = self.text[self.at + 1 : self.at + 2] == "]"
        if self.text.startswith("[:", self.at):
            raise self._error(f"a class such as [:alpha:] is not supported; {CHARACTERS}")
        if char == "[" or (char in "&|~-" and self._next() * 2 == self.text[self.at : self.at + 2]):
            raise self._error(f"{char} in a set is written \\{char}")
        if char == "-" and self.at != first and not last:
            raise self._error("- in a set is written \\-")
        self.at += 1
        return ((ord(char), ord(char)),)

    def _repeated(self, tree: Tree) -> Tree:
        char = self._next()
        if not char or char not in "*+?{":
            return tree
        self.at += 1
        if char == "{":
            low, high = self._bounds()
        else:
            low, high = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[char]
        if high < 0 and _may_be_empty(tree):
            raise self._error("an unbounded repetition of something that may be empty")
        lazy = self._skip("?")
        if self._next() and self._next() in "*+?{":
            raise self._error("a repetition of a repetition")
        made = ("{", [tree], low, high, lazy)
        if _times(made) > REPEAT_MAX:
            raise self._error(
                f"nested repetitions that make {_times(made)}; {REPEAT_MAX} is the maximum"
            )
        return made

    def _bounds(self) -> tuple[int, int]:
        inside, closed, _ = self.text[self.at :].partition("}")
        low, comma, high = inside.partition(",")
        good = low.isascii() and low.isdigit() and (not high or (high.isascii() and high.isdigit()))
        if not closed or not good:
            raise self._error("{ must be {2}, {2,} or {2,5}; a plain one is \\{")
        bounds = int(low), int(high) if high else -1 if comma else int(low)
        if max(bounds) > REPEAT_MAX or -1 < bounds[1] < bounds[0]:
            raise self._error(f"a repetition of {inside}; {REPEAT_MAX} is the maximum")
        self.at += len(inside) + 1
        return bounds

    def _states(self, tree: Tree, after: int) -> int:
        """The state where the tree begins, if it continues at `after`."""
        make = self.pattern.state
        inner: Any
        kind, inner, *bounds = tree
        if kind == "chars":
            return make(inner, after)
        if kind == "|":
            return make((), 0, *[self._states(one, after) for one in inner])
        if kind == "":
            for one in reversed(inner):
                after = self._states(one, after)
            return after
        low, high, lazy = bounds
        order = -1 if lazy else 1
        if high < 0:
            loop = make((), 0, after)
            self.pattern.free[loop] = (self._states(inner[0], loop), after)[::order]
            after = loop
        end = after
        for _ in range(high - low if high >= 0 else 0):
            after = make((), 0, *(self._states(inner[0], after), end)[::order])
        for _ in range(low):
            after = self._states(inner[0], after)
        return after


def _times(tree: Tree) -> int:
    """How often a part of the tree is repeated at most; as in Go, `*` and `+` count once."""
    kind, inner, *bounds = tree
    if kind == "chars":
        return 1
    if kind == "{" and bounds[1] == 0:
        return 1
    inside = max(map(_times, inner), default=1)
    return inside * max(*bounds[:2], 1) if kind == "{" else inside


def _may_be_empty(tree: Tree) -> bool:
    kind, inner, *bounds = tree
    if kind == "chars":
        return False
    if kind == "{":
        return bounds[0] == 0 or _may_be_empty(inner[0])
    return (any if kind == "|" else all)(map(_may_be_empty, inner))


def example(ranges: Ranges) -> int:
    """One of these characters, a readable one if possible."""
    for char in NICE:
        if any(low <= char <= high for low, high in ranges):
            return char
    low, high = ranges[0]
    return SURROGATES[1] + 1 if SURROGATES[0] <= low and high > SURROGATES[1] else low


def overlap(one: Pattern, other: Pattern) -> str | None:
    """A shortest key that begins with a match of both. Raises `TooComplex`."""
    came: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {
        (a, b): None for a in one.start_states() for b in other.start_states()
    }
    waiting, steps = deque(came), len(came)
    while waiting:
        pair = waiting.popleft()
        if pair == (0, 0):
            return _spell(came, pair)
        chars = common(one.chars[pair[0]], other.chars[pair[1]])
        if not chars:
            continue
        some, others = one.behind(pair[0]), other.behind(pair[1])
        steps += len(some) * len(others)
        _check_steps(steps, one, other)
        for after in product(some, others):
            if after not in came:
                came[after] = (pair, example(chars))
                waiting.append(after)
    return None


def _check_steps(steps: int, one: Pattern, other: Pattern) -> None:
    if steps > STEPS_MAX:
        raise TooComplex(f"{one.text!r} and {other.text!r} are too long to be compared")


def _spell(
    came: dict[tuple[int, int], tuple[tuple[int, int], int] | None], pair: tuple[int, int]
) -> str:
    key = []
    while (step := came[pair]) is not None:
        pair, char = step
        key.append(chr(char))
    return "".join(reversed(key))


def is_empty(pattern: Pattern) -> bool:
    """True if no key begins with a match."""
    return overlap(pattern, Pattern("")) is None


def covers(one: Pattern, other: Pattern) -> bool:
    """True if every key that begins with a match of `other` begins with one of `one`.

    Raises `TooComplex`.
    """
    begin = one.start_states()
    seen = {(state, begin) for state in other.start_states()}
    waiting, steps = list(seen), 0
    while waiting:
        state, states = waiting.pop()
        if 0 in states:
            continue  # `one` has matched, whatever follows
        if state == 0:
            return False  # `other` has matched, and `one` has not
        for char in _borders(one, states, other.chars[state]):
            steps += len(states) + len(other.behind(state))
            _check_steps(steps, one, other)
            after = one.step(states, char)
            for pair in [(behind, after) for behind in other.behind(state)]:
                if pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)
    return True


def _borders(pattern: Pattern, states: frozenset[int], chars: Ranges) -> list[int]:
    """One of `chars` for each way in which these states can consume them."""
    borders = {low for low, _ in chars}
    for state in states:
        for low, high in pattern.chars[state]:
            borders |= {low, high + 1}
    return [at for at in borders if any(low <= at <= high for low, high in chars)]
