"""nats-server as the judge of a configuration: is it accepted, and what does it mean?

`nats-server -t` prints a digest of what it has read: the SHA-256 of that as JSON. So two readers
agree on a file exactly if they have the same digest.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from seriatim.cli.from_nats.nats_syntax import NatsValue
from tests.support.processes import BIN

DIGEST = re.compile(r"is valid \(sha256:([0-9a-f]{64})\)")
RUN_S = 60


def judged(path: Path, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The digest of a file, empty if nats-server refuses it; and what it says."""
    done = subprocess.run(
        [str(BIN / "nats-server"), "-t", "-c", path.name],
        cwd=path.parent,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    said = done.stdout + done.stderr
    found = DIGEST.search(said)
    assert (found is not None) == (done.returncode == 0), said
    return found[1] if found else "", said


def plain(value: Any) -> Any:
    """A configuration without its places."""
    if isinstance(value, NatsValue):
        return plain(value.raw)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value


def digest(config: Mapping[str, NatsValue]) -> str:
    """What nats-server would print for a configuration that we have read."""
    text = json.dumps(plain(config), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    for one in "<>&\u2028\u2029":  # as Go's encoder
        text = text.replace(one, f"\\u{ord(one):04x}")
    return hashlib.sha256(f"{text}\n".encode()).hexdigest()
