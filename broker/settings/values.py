"""One value of a setting: from text or TOML to Python, checked, and back to text.

Every refusal is a `WrongValue` that says what is wrong and what to give instead. `show` is
the inverse of `read_text`: what it prints may be put back into a file.
"""

import re
from decimal import Decimal
from typing import Any

from broker.settings.knobs import Knob

SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
SIZES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
SECONDS = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}
FLAG_WORDS = {"true": True, "yes": True, "on": True, "1": True}
FLAG_WORDS |= {"false": False, "no": False, "off": False, "0": False}

# Digits are bounded, so that no text makes a number that takes long to compute with.
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([A-Za-z]*)")
_DURATION = re.compile(r"(?:[0-9]{1,15}(?:\.[0-9]{1,400})?(?:d|h|ms|m|s)){1,8}")
_DURATION_PART = re.compile(r"([0-9.]+)(d|h|ms|m|s)")
_PLAIN_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,15}")

HOW = {
    "size": "give bytes, or a number with KiB, MiB, GiB (1024) or kB, MB, GB (1000)",
    "duration": "give seconds, or a number with ms, s, m, h or d, such as 500ms or 1m30s",
    "count": "give a whole number",
    "port": "give a number from 1 to 65535",
    "flag": "give true or false",
    "text": "give a text",
    "list": "give a list of texts",
    "subject": "give words joined by dots",
    "pattern": "give words joined by dots, wildcards too",
    "group": "give 224.0.0.0 to 239.255.255.255, or of IPv6 an address in ff00::/8",
    "interface": "give its name, as `ip link` shows it, or its IPv4 address",
    "codec": "give netstring, netstring-subject, binary, moldudp64 or package.module:Class",
}
ALLOWED = {
    "flag": "true, false",
    "list": "subjects, wildcards too",
    "subject": "a subject",
    "pattern": "a subject, wildcards too",
    "group": "224.0.0.0 to 239.255.255.255, or ff00::/8",
    "interface": "a name, or an IPv4 address",
    "codec": "netstring, netstring-subject, binary, moldudp64, or package.module:Class",
}
ENTRIES_TOLD_MAX = 3
NATIVE = {"count": "a whole number", "port": "a port", "flag": "a flag", "list": "a list"}
NATIVE |= {"group": "a multicast address", "interface": "an interface"}
TEXTS = ("text", "choice", "subject", "pattern", "group", "interface", "codec")
HOSTS = ("host", "http_host", "rerequest_host")
INTERFACE_NAME_MAX = 15  # Linux' own limit


class WrongValue(ValueError):
    """This value cannot be; the text says why and what can."""


def read_text(knob: Knob, text: str) -> Any:
    """The value that a flag or a variable means. Raises `WrongValue`."""
    match knob.kind:
        case "size":
            value: Any = _size(text)
        case "duration":
            value = read_duration(text)
        case "count" | "port":
            if not _WHOLE_NUMBER.fullmatch(text):
                raise WrongValue(f"{quoted(text)} is not {NATIVE[knob.kind]}; {how(knob)}")
            value = int(text)
        case "flag":
            if text.lower() not in FLAG_WORDS:
                raise WrongValue(f"{quoted(text)} is neither true nor false; {HOW['flag']}")
            value = FLAG_WORDS[text.lower()]
        case "list":
            value = tuple(word for word in re.split(r"[,\s]+", text) if word)
        case _:
            value = text
    return check(knob, value)


def read_native(knob: Knob, raw: object) -> Any:
    """The value that parsed TOML means. Raises `WrongValue`."""
    number = isinstance(raw, int | float) and not isinstance(raw, bool)
    match knob.kind:
        case "size" | "duration" if isinstance(raw, str):
            return read_text(knob, raw)
        case "size" | "count" | "port" if number and isinstance(raw, int):
            return check(knob, raw)
        case "duration" if number:
            return check(knob, float(raw))  # type: ignore[arg-type]
        case "flag" if isinstance(raw, bool):
            return raw
        case "list" if isinstance(raw, list):
            return check(knob, tuple(raw))
        case kind if kind in TEXTS and isinstance(raw, str):
            return check(knob, raw)
    kind = NATIVE.get(knob.kind, f"a {knob.kind}")
    raise WrongValue(f"{_shown_raw(raw)} is not {kind}; {how(knob)}{_quotes(knob, raw)}")


def check(knob: Knob, value: Any) -> Any:
    """`value` itself, or without the brackets of an IPv6 host. Raises `WrongValue`."""
    if knob.kind == "port" and value == 0 and knob.low == -1 and not may_be_none(knob):
        raise WrongValue("0 is not a port to listen on; give 1 to 65535, or -1 for any free port")
    if knob.low is not None and knob.high is not None and not knob.low <= value <= knob.high:
        side = "above" if value > knob.high else "below"
        edge = show(knob, knob.high if value > knob.high else knob.low)
        raise WrongValue(f"{show(knob, value)} is {side} {edge}; give {allowed(knob)}")
    if knob.kind == "choice" and value not in knob.choices:
        close = closest(value, knob.choices)
        hint = f'; did you mean "{close}"?' if close else ""
        raise WrongValue(f"{quoted(value)} is not one of {', '.join(knob.choices)}{hint}")
    if isinstance(value, str) and not value.isprintable():
        raise WrongValue(f"{value!r} holds a character that cannot be printed; leave it out")
    if knob.name in HOSTS:
        return _host(value, may_be_empty=knob.default == "")
    match knob.kind:
        case "list":
            _check_entries(value)
        case "subject" | "pattern":
            check_subject(value, wildcards=knob.kind == "pattern")
        case "group":
            return _group(value)
        case "interface":
            return _interface(value)
        case "codec":
            _check_codec(value)
    return value


def _check_entries(entries: tuple[object, ...]) -> None:
    """Raise `WrongValue` that tells which entries of a list are no subjects, and why."""
    wrong = []
    for at, entry in enumerate(entries, 1):
        try:
            if not isinstance(entry, str):
                raise WrongValue(f"{_shown_raw(entry)} is not a text; give a subject in quotes")
            check_subject(entry)
        except WrongValue as problem:
            wrong.append(f"entry {at}: {problem}")
    if wrong:
        more = len(wrong) - ENTRIES_TOLD_MAX
        told = "; ".join(wrong[:ENTRIES_TOLD_MAX])
        raise WrongValue(f"{told}; and {more} more" if more > 0 else told)


def check_subject(subject: str, wildcards: bool = True) -> str:
    """`subject` itself, when it can be subscribed to, or published. Raises `WrongValue`."""
    tokens = subject.split(".")
    if not subject or any(character.isspace() for character in subject):
        raise WrongValue(
            f"{quoted(subject)} is not a valid subject; give words joined by dots, without blanks"
        )
    if not is_text(subject):
        raise WrongValue(f"{quoted(subject)} is not a valid subject: it must be UTF-8 here")
    if "" in tokens:
        raise WrongValue(
            f"{quoted(subject)} is not a valid subject: a word between its dots is empty"
        )
    if ">" in tokens[:-1]:
        raise WrongValue(f'{quoted(subject)} is not a valid subject: ">" may only be its last word')
    if not wildcards and (">" in tokens or "*" in tokens):
        raise WrongValue(f"{quoted(subject)} has a wildcard; a message is published to one subject")
    return subject


def is_text(text: str) -> bool:
    """Whether an argument was UTF-8; Python hides bytes that were not in lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def read_duration(text: str) -> float:
    """The seconds that a text means. Raises `WrongValue`."""
    if _PLAIN_NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        raise WrongValue(f"{quoted(text)} is not a duration; {HOW['duration']}")
    parts = _DURATION_PART.findall(text)
    return float(sum(Decimal(number) * SECONDS[unit] for number, unit in parts))


def show(knob: Knob, value: Any) -> str:
    """`value` as text that `read_text` understands."""
    match knob.kind:
        case "size":
            for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
                if value and value % size == 0:
                    return f"{int(value) // size}{unit}"
            return str(int(value))
        case "duration":
            return _show_duration(value)
        case "flag":
            return "true" if value else "false"
        case "list":
            return ",".join(map(str, value))
        case _:
            return str(value if isinstance(value, str) else int(value))


def allowed(knob: Knob) -> str:
    """What the knob accepts, in words for a person."""
    if knob.choices:
        return ", ".join(knob.choices)
    if knob.name in HOSTS:
        return "an IP address or a host name"
    if knob.low is None or knob.high is None:
        return ALLOWED.get(knob.kind, "any text")
    if knob.kind == "port" and knob.low > 0:
        return f"{int(knob.low)} to {int(knob.high)}"
    if knob.kind == "port":
        none = ", or 0 for none" if may_be_none(knob) else ""
        return f"1 to 65535, or -1 for any free port{none}"
    return f"{show(knob, knob.low)} to {show(knob, knob.high)}"


def may_be_none(knob: Knob) -> bool:
    """Whether 0 is no mistake for a port, but says that there is none."""
    return knob.zero.startswith("0:")


def how(knob: Knob) -> str:
    """How to write a value of the knob."""
    return f"give {allowed(knob)}" if knob.choices or knob.kind == "port" else HOW[knob.kind]


def quoted(text: str) -> str:
    """`text` in quotes, fit for one line of a message."""
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    return f'"{shown}"' if shown.isprintable() else repr(shown)


def closest(word: str, words: "tuple[str, ...] | list[str]") -> str:
    """The one of `words` that `word` was probably meant to be, or nothing."""
    import difflib  # only where something is wrong already

    found = difflib.get_close_matches(word, words, n=1)
    return found[0] if found else ""


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if not found or found[2].lower() not in SIZES:
        if found and found[2].lower() in ("k", "m", "g"):
            unit = found[2].upper()
            raise WrongValue(
                f"{quoted(text)} is ambiguous; give {found[1]}{unit}iB (of 1024) or"
                f" {found[1]}{unit}B (of 1000)"
            )
        raise WrongValue(f"{quoted(text)} is not a size; {HOW['size']}")
    size = Decimal(found[1]) * SIZES[found[2].lower()]
    if size != int(size):
        raise WrongValue(f"{quoted(text)} is not a whole number of bytes; {HOW['size']}")
    return int(size)


def _show_duration(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")) or value < 0:
        return str(value)
    exact = Decimal(repr(float(value)))
    if 0 < exact < 1 and exact * 1000 == int(exact * 1000):
        return f"{int(exact * 1000)}ms"
    whole, text = int(exact), ""
    if whole == exact and whole % 86400 == 0 and whole > 86400:
        return f"{whole // 86400}d"
    if whole == exact and whole % 60 == 0 and whole:
        hours, minutes = divmod(whole // 60, 60)
        return (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")
    text = f"{exact:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "s"


def _host(value: str, may_be_empty: bool) -> str:
    """An address or a name to listen on; an IPv6 address may come in brackets."""
    bare = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    if not bare and not may_be_empty:
        raise WrongValue(
            f"{quoted(value)} is not an address; give an IP address or a host name, or 0.0.0.0 for"
            " every interface"
        )
    if ":" in bare:
        import ipaddress  # only where there is such an address

        try:
            return str(ipaddress.ip_address(bare))
        except ValueError:
            raise WrongValue(
                f"{quoted(value)} is not an address; give it without a port, which is a setting of"
                " its own"
            ) from None
    if any(character.isspace() or character == "/" for character in bare):
        raise WrongValue(f"{quoted(value)} is not an address; give an IP address or a host name")
    return bare


def _group(value: str) -> str:
    """A multicast address; one of IPv6 may come in brackets."""
    import ipaddress  # only where there is a feed

    bare = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    if "%" in bare:
        raise WrongValue(f"{quoted(value)} has a zone; leave it out, and give the interface")
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        raise WrongValue(f"{quoted(value)} is not a multicast address; {HOW['group']}") from None
    if not address.is_multicast:
        raise WrongValue(f"{quoted(value)} is not a multicast address; {HOW['group']}")
    return str(address)


def _interface(value: str) -> str:
    """An interface's name or address, which this machine need not have; empty is none."""
    if not value:
        return value
    import ipaddress

    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        named = not any(character.isspace() or character in "/:" for character in value)
        if named and len(value.encode("utf-8", "replace")) <= INTERFACE_NAME_MAX:
            return value
        raise WrongValue(f"{quoted(value)} is not an interface; {HOW['interface']}") from None


def _check_codec(name: str) -> None:
    """Raise `WrongValue` unless there is such a codec; a user's own is imported for it."""
    from sequencer.feed.codecs import codec_named
    from sequencer.feed.errors import CodecNotFound

    try:
        codec_named(name)
    except CodecNotFound as error:
        raise WrongValue(str(error).removeprefix("codec ")) from error


def _shown_raw(raw: object) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return quoted(raw)
    if isinstance(raw, dict):
        return "a table"
    return "this list" if isinstance(raw, list) else str(raw)


def _quotes(knob: Knob, raw: object) -> str:
    return ", without quotes" if isinstance(raw, str) and knob.kind != "list" else ""
