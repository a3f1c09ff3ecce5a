"""Subjects: tokens between dots, as in nats-server, and which pattern matches which subject.

A token is any run of bytes without a dot; it must not be empty. In a subscription, a token
`*` matches any one token, and a last token `>` matches one or more. `foo*`, `*foo` and `f>`
are literal tokens. Subjects are bytes, not text.
"""

import cython


def is_pattern(subject: bytes) -> bool:
    """True if this is a valid subject for a subscription."""
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
    """True if this is a valid subject for a message: a pattern without a wildcard."""
    return is_pattern(subject) and not has_wildcard(subject)


def has_wildcard(subject: bytes) -> bool:
    """True if one of the tokens is `*` or `>`."""
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
    """True if a valid pattern matches a subject; a subject with an empty token matches nothing."""
    return takes(pattern, len(pattern), subject, 0, len(subject))


def takes(
    wanted: bytes, wanted_size: int, given: bytes | bytearray, start: int, given_size: int
) -> bool:
    """`covers` for a subject that is a span of `given`."""
    at = 0  # in the pattern
    on = start  # in the subject
    end = start + given_size
    if cython.compiled:  # whole tokens that are the same, as most of an inbox is
        at = same_size(wanted, given + start, min(wanted_size, given_size))
        while at > 0 and wanted[at - 1] != ord("."):
            at -= 1
        on += at
    while at < wanted_size and on < end:
        last = at + 1 == wanted_size
        if wanted[at] == ord(">") and last:
            return is_whole(given, on, end)
        if wanted[at] == ord("*") and (last or wanted[at + 1] == ord(".")):
            if given[on] == ord("."):
                return False
            at += 1
            while on < end and given[on] != ord("."):
                on += 1
        else:
            while at < wanted_size and on < end and wanted[at] != ord("."):
                if wanted[at] != given[on]:
                    return False
                at += 1
                on += 1
        if at == wanted_size or on == end:
            break
        if wanted[at] != ord(".") or given[on] != ord("."):
            return False
        at += 1
        on += 1
    return at == wanted_size and on == end


def is_whole(text: bytes | bytearray, at: int, size: int) -> bool:
    """True if there is at least one token from `at` on, and none is empty."""
    after_dot = True
    while at < size:
        if text[at] == ord("."):
            if after_dot:
                return False
            after_dot = True
        else:
            after_dot = False
        at += 1
    return not after_dot
