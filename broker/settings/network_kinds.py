"""Kinds of settings that only the broker has: ports, hosts, groups, interfaces and codecs."""

from typing import Final

from seriatim.settings.amounts import read_whole_number
from seriatim.settings.checked import Setting, SettingKind, WrongValue, quoted

INTERFACE_NAME_MAX: Final = 15  # Linux' own limit


def may_be_none(setting: Setting) -> bool:
    """Whether port 0 is allowed and means "disabled"."""
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
