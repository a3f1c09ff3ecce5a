"""The subject of a certificate as text, as Go and so nats-server write it.

Go knows nine types. It writes all values of a type as one part, those types in an order of its own,
and then all others in the order of the certificate; the text has them from the last to the first.
Of a common name and a serial number only the last value counts.
"""

from collections.abc import Iterable
from typing import Final

KNOWN: Final = {
    "2.5.4.6": "C",
    "2.5.4.8": "ST",
    "2.5.4.7": "L",
    "2.5.4.9": "STREET",
    "2.5.4.17": "POSTALCODE",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.3": "CN",
    "2.5.4.5": "SERIALNUMBER",
}
SINGLE: Final = ("CN", "SERIALNUMBER")
SPECIAL: Final = ',+"\\<>;'


def subject_text(name: Iterable[tuple[str, str]]) -> str:
    """Return the text of types, as 2.5.4.3, and values; empty for none."""
    others: list[str] = []
    known: dict[str, list[str]] = {short: [] for short in KNOWN.values()}
    for kind, value in name:
        short = KNOWN.get(kind)
        written = f"{short or kind}={escaped(value)}"
        if short is None:
            others.append(written)
        elif short in SINGLE:
            known[short] = [written] if value else []
        else:
            known[short].append(written)
    parts = others + ["+".join(values) for values in known.values() if values]
    return ",".join(reversed(parts))


def escaped(value: str) -> str:
    """Escape a value as in RFC 2253."""
    text = "".join(f"\\{one}" if one in SPECIAL else one for one in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if value.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text
