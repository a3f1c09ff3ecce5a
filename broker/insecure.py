"""What of a broker's settings is insecure on a network: one line each, with the remedy.

A pure function of the settings: the start, a reload and `seriatim check` say the same.
"""

from broker.settings.settings import Settings

LOOPBACK = ("localhost", "::1")


def insecure(settings: Settings) -> list[str]:
    """The lines; empty if there is nothing to say."""
    return []
