"""What /connz shows of a client's certificates, as nats-server does: `TLSPeerCert`."""

import hashlib
from contextlib import suppress
from itertools import chain

from broker.wires.certificate_parts import name_parts, parts_of
from broker.wires.certificate_subject import subject_text


def peer_certificate(der: bytes) -> dict[str, str]:
    """One certificate: its subject, if it has one, and the hashes of its key and of itself.

    What cannot be read is left out.
    """
    shown = {"cert_sha256": hashlib.sha256(der).hexdigest()}
    with suppress(ValueError):
        parts = parts_of(der)
        shown["spki_sha256"] = hashlib.sha256(parts.public_key).hexdigest()
        if subject := subject_text(chain.from_iterable(name_parts(parts.subject))):
            shown["subject"] = subject
    return shown
