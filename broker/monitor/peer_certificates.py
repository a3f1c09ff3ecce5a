"""A client's certificates as /connz shows them, in nats-server's form: `TLSPeerCert`."""

import hashlib
from contextlib import suppress
from itertools import chain

from broker.wires.certificate_parts import name_parts, parts_of
from broker.wires.certificate_subject import subject_text


def peer_certificate(der: bytes) -> dict[str, str]:
    """Describe a certificate: its subject, if it has one, and the hashes of its key and of itself.

    Parts that cannot be read are left out.
    """
    shown = {"cert_sha256": hashlib.sha256(der).hexdigest()}
    with suppress(ValueError):
        parts = parts_of(der)
        shown["spki_sha256"] = hashlib.sha256(parts.public_key).hexdigest()
        if subject := subject_text(chain.from_iterable(name_parts(parts.subject))):
            shown["subject"] = subject
    return shown
