"""What a member has done since its process began, counted for monitoring."""

from dataclasses import dataclass


@dataclass(slots=True)
class ReplicaCounters:
    """Of one member; its roles count."""

    views: int = 0  # newer views that it has learned of
    takeovers: int = 0  # its own reigns
    cut_records: int = 0  # removed from the end of its log: they were never committed
    found_in_log: int = 0  # forwarded before a connection broke, and not to be sent again
    ids_answered: int = 0  # whose id had a number already, as the coordinator answered
