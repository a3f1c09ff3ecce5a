"""Subjects by their definition: tokens between dots, compared one by one."""


def tokens_match(pattern: bytes, subject: bytes) -> bool:
    """True if a subscription matches a published subject."""
    wanted, given = pattern.split(b"."), subject.split(b".")
    if not any(token == b"*" for token in wanted) and wanted[-1] != b">":
        return wanted == given
    if b"" in given:
        return False
    for at, token in enumerate(wanted):
        if token == b">":
            return len(given) > at
        if at >= len(given) or token not in (b"*", given[at]):
            return False
    return len(wanted) == len(given)


def is_pattern(subject: bytes) -> bool:
    """True if a client may subscribe to it."""
    tokens = subject.split(b".")
    return b"" not in tokens and b">" not in tokens[:-1]


def is_literal(subject: bytes) -> bool:
    """True if a pedantic client may publish to it."""
    tokens = subject.split(b".")
    return not {b"", b"*", b">"} & set(tokens)


def has_wildcard(subject: bytes) -> bool:
    """True if one of its tokens is exactly `*` or `>`."""
    return bool({b"*", b">"} & set(subject.split(b".")))


def begins(subject: bytes, *prefixes: bytes) -> bool:
    """True if it has one of the prefixes, and something after it."""
    return any(subject[: len(prefix)] == prefix != subject for prefix in prefixes)
