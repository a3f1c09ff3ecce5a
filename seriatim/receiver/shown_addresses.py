"""Addresses of brokers and servers, as they may be shown in messages and logs."""


def without_credentials(url: str) -> str:
    """The address without the user and the password that may stand before its last @."""
    scheme, mark, rest = url.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]
