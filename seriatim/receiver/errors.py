"""Errors that keep a receiver from starting."""


class ReceiverError(Exception):
    """Base of all; the text is for the user, and says what to do."""


class GroupError(ReceiverError):
    """A group that cannot be joined: what was attempted, and the system's error."""


class FillError(ReceiverError):
    """The server that should fill holes cannot be used."""
