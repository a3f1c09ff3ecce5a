"""Tell a build how this machine's pip reaches its packages, without a word in the Dockerfile.

    host_pip.py PIP_CONF   writes the machine's settings to the file PIP_CONF, which the build
                           mounts as /etc/pip.conf, and prints what else to mount, one `from:to`
                           a line: certificates and local indexes that the settings name.

Only settings about reaching packages are taken: a `target` or `user` of the machine would change
what the image becomes. Paths get a place of their own (`INSIDE`), for a package that the build
installs may want to write the very file, as ca-certificates does with its bundle.
"""

import ast
import configparser
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

INSIDE = "/mnt/machine"  # where the machine's paths appear in the build

KEYS = {
    "cert",
    "client-cert",
    "default-timeout",
    "extra-index-url",
    "find-links",
    "index-url",
    "no-index",
    "proxy",
    "retries",
    "timeout",
    "trusted-host",
}


def settings(listed: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for `[global]` out of the lines of `pip config list`.

    A line is `section.key='value'`; the section of a PIP_ variable is `:env:` and wins.
    """
    found: dict[str, str] = {}
    for line in sorted(listed, key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if key in KEYS and section in ("global", "install", "wheel", ":env:"):
            found[key] = str(ast.literal_eval(value))
    bundle = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
    if bundle:
        found.setdefault("cert", bundle)  # pip obeys these two as well
    return found


def moved(found: Mapping[str, str]) -> tuple[dict[str, str], list[Path]]:
    """Return the settings with this machine's paths put inside, and those paths to be mounted."""
    inside, named = {}, set()
    for key, value in found.items():
        words = []
        for word in value.split():
            scheme = "file://" if word.startswith("file://") else ""
            path = Path(word.removeprefix(scheme))
            if path.is_absolute() and path.exists():
                # The pages of an index link to files that lie beside it.
                named.add(path.parent if scheme and key.endswith("index-url") else path)
                word = f"{scheme}{INSIDE}{path}"
            words.append(word)
        inside[key] = " ".join(words)
    return inside, sorted(path for path in named if not named.intersection(path.parents))


def main(target: str) -> None:
    listing = subprocess.run(
        ["pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    found, paths = moved(settings(listing.splitlines(), os.environ))
    config = configparser.RawConfigParser()
    config["global"] = found
    with open(target, "w", encoding="utf-8") as file:
        config.write(file)
    for path in paths:
        print(f"{path}:{INSIDE}{path}")


if __name__ == "__main__":
    main(sys.argv[1])
