"""What a member sent that it must not send: the connection is closed, and the process goes on.

BadRecords      records that are damaged, or that are not what they must be
BadFrame        bytes that are not a frame of the members' protocol
"""


class BadRecords(ValueError):
    """The records cannot be taken; `str()` says which, and what is wrong with it."""


class BadFrame(ValueError):
    """The bytes are not what a member sends; `str()` says what is wrong with them."""
