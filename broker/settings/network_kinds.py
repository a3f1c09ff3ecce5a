"""Kinds of settings that only the broker has: ports, hosts, addresses, endpoints, groups..."""

import re
from typing import Any, Final

from seriatim.settings.amounts import read_whole_number
from seriatim.settings.checked import Setting, SettingKind, WrongValue, list_kind, quoted, shown_raw

INTERFACE_NAME_MAX: Final = 15  # Linux' own limit


def may_be_none(setting: Setting) -> bool:
    """True if port 0 is allowed and means "disabled"."""
    return bool(getattr(setting, "zero", "").startswith("0:"))


def _check_port(setting: Setting, value: int) -> None:
    if value == 0 and setting.low == -1 and not may_be_none(setting):
        raise WrongValue("0 is not a port to listen on; give 1 to 65535, or -1 for any free port")


def _allowed_ports(setting: Setting) -> str:
    if setting.low is not None and setting.high is not None and setting.low > 0:
        return f"{int(setting.low)} to {int(setting.high)}"
    none = ", or 0 for none" if may_be_none(setting) else ""
    return f"1 to 65535, or -1 for any free port{none}"


def _host(setting: Setting, value: str) -> str:
    """Check an address or a name to listen on; an IPv6 address may be in brackets."""
    bare = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    if not bare and setting.default != "":
        raise WrongValue(
            f"{quoted(value)} is not an address; give an IP address or a host name, or 0.0.0.0 for"
            " every interface"
        )
    if ":" in bare:
        import ipaddress  # only if there is such an address

        try:
            return str(ipaddress.ip_address(bare))
        except ValueError:
            raise WrongValue(
                f"{quoted(value)} is not an address; give it without a port, which is a setting of"
                " its own"
            ) from None
    if any(character.isspace() or character == "/" for character in bare):
        raise WrongValue(f"{quoted(value)} is not an address; give an IP address or a host name")
    return bare


def _group(setting: Setting, value: str) -> str:
    """Check a multicast address; an IPv6 one may be in brackets."""
    import ipaddress  # only if there is a feed

    bare = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    if "%" in bare:
        raise WrongValue(f"{quoted(value)} has a zone; leave it out, and give the interface")
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        raise WrongValue(f"{quoted(value)} is not a multicast address; {GROUP.how}") from None
    if not address.is_multicast:
        raise WrongValue(f"{quoted(value)} is not a multicast address; {GROUP.how}")
    return str(address)


def _interface(setting: Setting, value: str) -> str:
    """Check an interface's name or address, which this machine need not have; empty means none."""
    if not value:
        return value
    import ipaddress

    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        named = not any(character.isspace() or character in "/:" for character in value)
        if named and len(value.encode("utf-8", "replace")) <= INTERFACE_NAME_MAX:
            return value
        raise WrongValue(f"{quoted(value)} is not an interface; {INTERFACE.how}") from None


def _check_codec(setting: Setting, name: str) -> str:
    """Check that a codec exists; a user's own is imported. Raises `WrongValue`."""
    from sequencer.feed.codecs import codec_named
    from sequencer.feed.errors import CodecNotFound

    try:
        codec_named(name)
    except CodecNotFound as error:
        raise WrongValue(str(error).removeprefix("codec ")) from error
    return name


def host_and_port(text: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 address is in brackets. Raises `WrongValue`."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    blank = any(character.isspace() or character in "/@" for character in text)
    whole = colon and bare and port.isascii() and port.isdigit() and len(port) <= 5
    if blank or not whole or (":" in bare and bare == host) or not 0 < int(port) < 65536:
        raise WrongValue(f"{quoted(text)} is not an address; {ADDRESS.how}")
    return bare, int(port)


def _address(setting: Setting, value: str) -> str:
    """Check HOST:PORT; empty means none."""
    if value:
        host_and_port(value)
    return value


def advertised(text: str) -> tuple[str, int]:
    """Split HOST or HOST:PORT; port 0 if there is none. Raises `WrongValue`."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    alone = bare != text or ":" not in text
    try:
        host, port = host_and_port(f"{text}:1" if alone else text)
    except WrongValue:
        raise WrongValue(f"{quoted(text)} is not an address; {ADVERTISED.how}") from None
    return host, 0 if alone else port


def _advertised(setting: Setting, value: str) -> str:
    """Check HOST or HOST:PORT; empty means none."""
    if value:
        advertised(value)
    return value


def _endpoints(setting: Setting, entries: tuple[Any, ...]) -> tuple[str, ...]:
    """Check etcd's endpoints: HOST:PORT, or a URL of http or https with nothing after the port."""
    found: list[str] = []
    for entry in entries:
        if not isinstance(entry, str):
            raise WrongValue(f"{shown_raw(entry)} is not a string; {ENDPOINTS.how}")
        scheme, slashes, place = entry.rstrip("/").rpartition("://")
        if slashes and scheme not in ("http", "https"):
            raise WrongValue(f"{quoted(entry)} is not an endpoint of etcd; {ENDPOINTS.how}")
        try:
            host_and_port(place)
        except WrongValue:
            raise WrongValue(
                f"{quoted(entry)} is not an endpoint of etcd; {ENDPOINTS.how}"
            ) from None
        found.append(f"{scheme or 'http'}://{place}")
    if len({one.partition("://")[0] for one in found}) > 1:
        raise WrongValue("some endpoints have http and others https; give one of them to all")
    if len(set(found)) < len(found):
        raise WrongValue("an endpoint is given twice; give each once")
    return tuple(found)


def _origins(setting: Setting, entries: tuple[Any, ...]) -> tuple[str, ...]:
    """Check origins of web pages: a scheme, a host and perhaps a port, and nothing after that."""
    for entry in entries:
        if not isinstance(entry, str):
            raise WrongValue(f"{shown_raw(entry)} is not a string; {ORIGINS.how}")
        if not re.fullmatch(r"https?://(\[[0-9a-fA-F:.]+\]|[^\s/@:?#\[\]]+)(:[0-9]{1,5})?", entry):
            raise WrongValue(f"{quoted(entry)} is not an origin; {ORIGINS.how}")
    return tuple(entries)


def _pins(setting: Setting, entries: tuple[Any, ...]) -> tuple[str, ...]:
    """Check hashes of keys: 64 hexadecimal digits, also with colons between them."""
    found = []
    for entry in entries:
        if not isinstance(entry, str):
            raise WrongValue(f"{shown_raw(entry)} is not a string; {PINS.how}")
        bare = entry.replace(":", "").lower()
        if not re.fullmatch(r"[0-9a-f]{64}", bare):
            raise WrongValue(f"{quoted(entry)} is not a SHA-256; {PINS.how}")
        found.append(bare)
    return tuple(found)


def _networks(setting: Setting, entries: tuple[Any, ...]) -> tuple[str, ...]:
    """Check addresses and networks."""
    import ipaddress

    found = []
    for entry in entries:
        if not isinstance(entry, str):
            raise WrongValue(f"{shown_raw(entry)} is not a string; {NETWORKS.how}")
        try:
            found.append(str(ipaddress.ip_network(entry)))
        except ValueError:
            raise WrongValue(f"{quoted(entry)} is not a network; {NETWORKS.how}") from None
    return tuple(found)


def _header(setting: Setting, value: str) -> str:
    """Check the name of a header of HTTP; empty means none."""
    if value and not re.fullmatch(r"[A-Za-z0-9-]{1,64}", value):
        raise WrongValue(f"{quoted(value)} is not the name of a header; {HEADER.how}")
    return value


def _name(setting: Setting, value: str) -> str:
    """Check the name of a cluster, which is a part of keys in etcd; empty means none."""
    if value and not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", value):
        raise WrongValue(f"{quoted(value)} is not the name of a cluster; {NAME.how}")
    return value


PORT: Final = SettingKind(
    how="",
    noun="a port",
    native=(int,),
    read=read_whole_number,
    check_first=_check_port,
    allowed=_allowed_ports,
)
HOST: Final = SettingKind(
    how="give a string",
    noun="a string",
    check=_host,
    allowed=lambda setting: "an IP address or a host name",
)
ADDRESS: Final = SettingKind(
    how="give HOST:PORT, such as broker-1:4222 or [fd00::1]:4222",
    noun="an address",
    check=_address,
    allowed=lambda setting: "HOST:PORT",
)
ADVERTISED: Final = SettingKind(
    how="give HOST or HOST:PORT, such as broker.example.com:4222 or [fd00::1]:4222",
    noun="an address",
    check=_advertised,
    allowed=lambda setting: "HOST or HOST:PORT",
)
ENDPOINTS: Final = list_kind(
    how="give http://HOST:PORT or https://HOST:PORT, several with commas between them",
    check=_endpoints,
    allowed=lambda setting: "http://HOST:PORT or https://HOST:PORT, one or several",
)
ORIGINS: Final = list_kind(
    how="give https://HOST or https://HOST:PORT, several with commas between them",
    check=_origins,
    allowed=lambda setting: "https://HOST or https://HOST:PORT, one or several",
)
PINS: Final = list_kind(
    how="give 64 hexadecimal digits, several with commas between them",
    check=_pins,
    allowed=lambda setting: "64 hexadecimal digits, one or several",
)
NETWORKS: Final = list_kind(
    how="give addresses or networks, such as 10.0.0.5 or 10.1.0.0/16, with commas between them",
    check=_networks,
    allowed=lambda setting: "addresses and networks, one or several",
)
HEADER: Final = SettingKind(
    how="give a name such as X-Forwarded-For",
    noun="a string",
    check=_header,
    allowed=lambda setting: "letters, digits and dashes",
)
NAME: Final = SettingKind(
    how="give up to 64 letters, digits, dots, dashes and underscores",
    noun="a string",
    check=_name,
    allowed=lambda setting: "up to 64 letters, digits, dots, dashes and underscores",
)
GROUP: Final = SettingKind(
    how="give 224.0.0.0 to 239.255.255.255, or of IPv6 an address in ff00::/8",
    noun="a multicast address",
    check=_group,
    allowed=lambda setting: "224.0.0.0 to 239.255.255.255, or ff00::/8",
)
INTERFACE: Final = SettingKind(
    how="give its name, as `ip link` shows it, or its IPv4 address",
    noun="an interface",
    check=_interface,
    allowed=lambda setting: "a name, or an IPv4 address",
)
CODEC: Final = SettingKind(
    how="give netstring, netstring-subject, binary, moldudp64 or package.module:Class",
    check=_check_codec,
    allowed=lambda setting: (
        "netstring, netstring-subject, binary, moldudp64, or package.module:Class"
    ),
)
