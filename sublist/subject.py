"""Subjects: tokens between dots, as nats-server has them, and what covers what.

A token is any run of bytes without a dot; it must not be empty. In a subscription a token
that is just `*` stands for any one token, and a last token that is just `>` for one or
more. `foo*`, `*foo` and `f>` are literal tokens. Subjects are bytes, not text.
"""

import cython

if not cython.compiled:
    DIGEST_BASIS, DIGEST_PRIME, DIGEST_MASK = 2166136261, 16777619, 0xFFFFFFFF


def is_pattern(subject: bytes) -> bool:
    """Whether a subscription may have this subject."""
    text = subject
    size = len(subject)
    at = 0
    begin = 0
    while at <= size:
        if at == size or text[at] == ord("."):
            if at == begin:
                return False
            if at - begin == 1 and text[begin] == ord(">") and at != size:  # `>` before the end
                return False
            begin = at + 1
        at += 1
    return True


def is_literal(subject: bytes) -> bool:
    """Whether a message may be published to this subject: a pattern without a wildcard."""
    return is_pattern(subject) and not has_wildcard(subject)


def has_wildcard(subject: bytes) -> bool:
    """Whether a token is just `*`, or just `>`."""
    text = subject
    size = len(subject)
    at = 0
    begin = 0
    while at <= size:
        if at == size or text[at] == ord("."):
            if at - begin == 1 and (text[begin] == ord("*") or text[begin] == ord(">")):
                return True
            begin = at + 1
        at += 1
    return False


def covers(pattern: bytes, subject: bytes) -> bool:
    """Whether a valid pattern takes in a literal subject whose tokens are not empty."""
    wanted = pattern
    given = subject
    wanted_size = len(pattern)
    given_size = len(subject)
    at = 0  # in the pattern
    on = 0  # in the subject
    while at < wanted_size and on < given_size:
        last = at + 1 == wanted_size
        if wanted[at] == ord(">") and last:
            return True
        if wanted[at] == ord("*") and (last or wanted[at + 1] == ord(".")):
            at += 1
            while on < given_size and given[on] != ord("."):
                on += 1
        else:
            while at < wanted_size and on < given_size and wanted[at] != ord("."):
                if wanted[at] != given[on]:
                    return False
                at += 1
                on += 1
        if at == wanted_size or on == given_size:
            break
        if wanted[at] != ord(".") or given[on] != ord("."):
            return False
        at += 1
        on += 1
    return at == wanted_size and on == given_size


def digest_of(subject: bytes) -> int:
    """FNV-1a, 32 bits: the digest under which a route is kept, and which the parser finds."""
    text = subject
    value = DIGEST_BASIS
    for at in range(len(subject)):
        value = ((value ^ text[at]) * DIGEST_PRIME) & DIGEST_MASK
    return value
