"""Why a receiver cannot begin."""


class ReceiverError(Exception):
    """Base of all; the text is for a person, and says what to do."""


class GroupError(ReceiverError):
    """A group that cannot be joined: what was asked of the system, and what it said."""


class FillError(ReceiverError):
    """Whoever was to fill holes cannot be asked."""
