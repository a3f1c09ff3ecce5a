"""The schema of an application: which keys it counts, and the topic of each key.

    Schema({"c/1/b/[0-9a-f]+/h": "block", "c/1/b/[0-9a-f]+/t/": "tx"}, default="chain")

A key that begins with a match of a pattern goes to that pattern's topic, and is counted in the
Batch under the matched text (`c/1/b/88aa/t/`). Every other key is in the Batch itself, which goes
to the default topic. Patterns are those of `pattern.py`, anchored.

A schema is checked as a whole when it is made, for all possible keys. Refused are patterns that
match no key, or the empty text; and two patterns that both match the beginning of one key, because
its topic and its count would be undefined. If one of the two never decides anything, the error
calls it unreachable; otherwise an example shows the overlap. So a producer counts the
longest counted prefix of a key, whatever the order of the patterns.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from cardinal.errors import SchemaError
from cardinal.matching import PatternWalk, straight
from cardinal.pattern import Pattern, PatternError, TooComplex, covers, is_empty, overlap

__all__ = ["REORG_TOPIC", "Schema", "Tracking"]

TOPIC = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
REORG_TOPIC = "reorg"  # the first word of the topics of reorg channels


def _compiled(patterns: Sequence[str]) -> tuple[re.Pattern[str], list[tuple[str, PatternWalk]]]:
    """Return one expression, whose `lastgroup` names the match, and the patterns to be walked."""
    named, walks = [], []
    for number, text in enumerate(patterns):
        pattern = Pattern(text)
        if straight(pattern):
            named.append(f"(?P<p{number}>{text.removeprefix('^')})")
        else:
            walks.append((f"p{number}", PatternWalk(pattern)))
    return re.compile("|".join(named) or r"(?!)", re.ASCII), walks


class Tracking:
    """A consumer's choice: the topics to listen to, and a test for keys and prefixes."""

    def __init__(self, topics: tuple[str, ...], patterns: Sequence[str] | None) -> None:
        self.topics = topics
        self.patterns = None if patterns is None else tuple(patterns)
        expression, self._walks = _compiled(patterns or ())
        self._match = expression.match

    def __reduce__(self) -> tuple[type["Tracking"], tuple[tuple[str, ...], Sequence[str] | None]]:
        """Pickle without the compiled expressions."""
        return Tracking, (self.topics, self.patterns)

    def __call__(self, key: str) -> bool:
        """True if this key of a Batch is wanted: a counted prefix, a value's or a sub-batch's."""
        return (
            self.patterns is None
            or self._match(key) is not None
            or any(walk.end(key) >= 0 for _, walk in self._walks)
        )


class Schema:
    """The prefixes of an application, and their topics."""

    def __init__(self, topics: Mapping[str, str], default: str) -> None:
        """Raises `SchemaError`, which lists every problem."""
        self._patterns: dict[str, Pattern] = {}
        problems = _topic_problems(default)
        if not isinstance(topics, Mapping):
            kind = type(topics).__name__
            what = "the topics of a schema must be a mapping of patterns to topics"
            raise SchemaError([*problems, f"{what}, not {kind}"])
        for text, topic in topics.items():
            problems += self._problems(text, topic)
        problems += self._conflicts()
        if problems:
            raise SchemaError(problems)
        self.default = default
        self.patterns = dict(topics)
        self.topics = tuple(dict.fromkeys((default, *topics.values())))
        expression, self._walks = _compiled(list(topics))
        self._match = expression.match
        self._topics = {f"p{number}": topic for number, topic in enumerate(topics.values())}

    def _problems(self, text: str, topic: str) -> list[str]:
        problems = _topic_problems(topic)
        if not isinstance(text, str):
            return [*problems, f"prefix {_no_text(text, 'pattern')}"]
        try:
            pattern = Pattern(text)
            if pattern.matches(""):
                problems.append(f"prefix {text!r}: matches the empty text; give a longer prefix")
            elif is_empty(pattern):
                problems.append(f"prefix {text!r}: unreachable, no key can match it")
            else:
                self._patterns[text] = pattern
        except PatternError as error:
            problems.append(f"prefix {error}")
        return problems

    def _conflicts(self) -> list[str]:
        problems = []
        for one, other in combinations(self._patterns.values(), 2):
            try:
                key = overlap(one, other)
            except TooComplex as error:
                problems.append(str(error))
                continue
            if key is None:
                continue
            if _covers(one, other):
                problems.append(_unreachable(other, one))
            elif _covers(other, one):
                problems.append(_unreachable(one, other))
            else:
                problems.append(
                    f"prefixes {one.text!r} and {other.text!r} overlap: {key!r} begins with both"
                )
        return problems

    def match(self, key: str) -> tuple[str, str | None]:
        """The topic of a key, and the prefix it is counted under; None if it is not counted."""
        found = self._match(key)
        if found is not None:
            return self._topics[found.lastgroup or ""], found[0]
        for name, walk in self._walks:
            end = walk.end(key)
            if end >= 0:
                return self._topics[name], key[:end]
        return self.default, None

    def track(self, *patterns: str, sub_batches: Sequence[str] = ()) -> Tracking:
        """Return the tracking of these patterns, or of everything if none are given.

        A pattern is one of the schema; or one that contains some of them entirely; or one of keys
        that are not counted, but are in the Batch. `sub_batches` are patterns for the prefixes of
        sub-batches, which may lie inside a pattern of the schema. Raises `SchemaError`.
        """
        if not patterns and not sub_batches:
            return Tracking(self.topics, None)
        topics, problems = [self.default], []
        for text in (*patterns, *sub_batches):
            if not isinstance(text, str):
                problems.append(f"cannot track {_no_text(text, 'pattern')}")
                continue
            if text in self.patterns:
                topics.append(self.patterns[text])
                continue
            try:
                wanted = Pattern(text)
                for pattern in self._patterns.values():
                    key = overlap(wanted, pattern)
                    if key is None:
                        continue
                    topics.append(self.patterns[pattern.text])
                    if text not in sub_batches and not covers(wanted, pattern):
                        problems.append(
                            f"cannot track {text!r}: keys like {key!r} are counted with all of "
                            f"{pattern.text!r}; track that"
                        )
            except PatternError as error:
                problems.append(f"cannot track {error}")
        if problems:
            raise SchemaError(problems)
        return Tracking(tuple(dict.fromkeys(topics)), (*patterns, *sub_batches))


def _no_text(what: object, name: str) -> str:
    return f"{what!r:.80}: a {name} must be text, not {type(what).__name__}"


def _topic_problems(topic: str) -> list[str]:
    if not isinstance(topic, str):
        return [f"topic {_no_text(topic, 'topic')}"]
    if not TOPIC.fullmatch(topic):
        return [f"topic {topic!r}: words of letters, digits, - and _, with dots between them"]
    if topic.split(".")[0] == REORG_TOPIC:
        return [f"topic {topic!r}: {REORG_TOPIC} is reserved for the channels of reorgs"]
    return []


def _covers(one: Pattern, other: Pattern) -> bool:
    try:
        return covers(one, other)
    except TooComplex:
        return False  # that they overlap is already known


def _unreachable(pattern: Pattern, by: Pattern) -> str:
    return (
        f"prefix {pattern.text!r} is unreachable: "
        f"every key that begins with it begins with {by.text!r} too"
    )
