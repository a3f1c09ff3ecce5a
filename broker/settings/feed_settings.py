"""The settings of one feed: its group, the format of its datagrams, and its re-requests."""

import dataclasses

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import GIB, KIB, MIB, setting

ETHERNET_BYTES = 1500  # what nearly every network carries in one piece
UDP_BYTES_MAX = 65507  # IPv4's longest datagram
HEAD_BYTES = {4: 28, 6: 48}  # of IP and UDP together
PACKING_BYTES_MIN = 256
HEARTBEAT = 1.0  # seconds


class FeedSettings(FrozenFields):
    """One multicast output."""

    name: str = setting(
        "",
        "text",
        "The feed's name in the log and the metrics.",
        zero="empty: its group and port",
    )
    group: str = setting(
        dataclasses.MISSING,
        "group",
        "The multicast address to send to: 224.0.0.0 to 239.255.255.255, or ff00::/8 with IPv6."
        " Addresses that begin with 239 or ff15 are for use within an organisation.",
    )
    port: int = setting(
        dataclasses.MISSING,
        "port",
        "The UDP port to send to. Receivers must know it, so it has no default.",
        bounds=(1, 65535),
    )
    interface: str = setting(
        "",
        "interface",
        "The interface to send from: its name, or its address with IPv4. Give it, because the"
        " route to a multicast group is often the default route.",
        zero="empty: the one that the system's routes choose",
    )
    ttl: int = setting(
        1,
        "count",
        "How many networks a datagram may reach, from router to router. Only its own by default,"
        " because multicast is easily heard further away than expected.",
        bounds=(0, 255),
        zero="0: receivers on this machine only",
    )
    loop: bool = setting(
        True,
        "flag",
        "Whether receivers on this machine get the datagrams, too.",
    )
    send_buffer: int = setting(
        1 * MIB,
        "size",
        "The size of the system's buffer for datagrams that the network has not taken yet. A burst"
        " of 1 MiB takes 8 ms at 1 Gbit/s. More than net.core.wmem_max needs root.",
        bounds=(4 * KIB, 1 * GIB),
    )
    subject: str = setting(
        ">",
        "pattern",
        "Only messages whose subject matches this are sent. All by default.",
    )
    codec: str = setting(
        "netstring",
        "codec",
        "The format of messages in datagrams: netstring (as cquencer's), netstring-subject,"
        " binary, moldudp64, or a class of your own as package.module:Class. docs/multicast.md"
        " draws them.",
    )
    packing: bool = setting(
        False,
        "flag",
        "Whether a datagram holds as many of the messages that arrived together as fit. Off by"
        " default, because cquencer's receivers expect one.",
    )
    datagram_bytes: int = setting(
        0,
        "size",
        "How far packing fills a datagram. By default as much as Ethernet carries in one piece. A"
        " longer message gets a datagram of its own.",
        bounds=(0, UDP_BYTES_MAX),
        zero="0: 1472, and 1452 with IPv6",
    )
    segmentation: bool = setting(
        True,
        "flag",
        "Whether datagrams of one size may be handed to the system as one (UDP_SEGMENT), which is"
        " several times faster. The network sees the same datagrams. Where the system or the route"
        " refuses it, the feed does without.",
    )
    heartbeat: float = setting(
        HEARTBEAT,
        "duration",
        "How long the feed may be silent before it sends a heartbeat with the next number. So"
        " receivers notice that the last messages are missing, too. MoldUDP64 uses one second. The"
        " codec `netstring` has no heartbeats.",
        bounds=(0.0, 3600.0),
        zero="0: never",
    )
    rerequest_port: int = setting(
        0,
        "port",
        "The UDP port for re-requests, on which receivers of `moldudp64` ask for what they missed."
        " Off by default, because anyone who reaches it may ask.",
        bounds=(-1, 65535),
        zero="0: off; -1: any free port",
    )
    rerequest_host: str = setting(
        "",
        "host",
        "The address for re-requests.",
        zero="empty: the broker's `host`",
    )
    rerequest_rate: int = setting(
        1 * MIB,
        "size",
        "How many bytes of answers one address gets in a second, a quarter of it at once. Anyone"
        " who forges requests in the name of an address can send it this much: 1 MiB/s is 8 Mbit/s,"
        " and fetches about 2000 short messages. Raise it where networks lose more and requests"
        " are not forged.",
        bounds=(64 * KIB, 1 * GIB),
    )
    rerequest_total_rate: int = setting(
        16 * MIB,
        "size",
        "How many bytes of answers all addresses together get in a second, so that the feed itself"
        " has room. 16 MiB/s is an eighth of 1 Gbit/s.",
        bounds=(64 * KIB, 16 * GIB),
    )
    rerequest_percent: int = setting(
        10,
        "count",
        "What percentage of a processor's time the re-requests of one address may take. So a"
        " receiver that asks without end does not slow down the broker. All addresses together may"
        " take three times as much. A receiver that needs more than a tenth still gets all it"
        " missed, but later. Raise it where networks lose so much.",
        bounds=(1, 100),
    )

    @property
    def label(self) -> str:
        """The name of the feed in the log and the metrics."""
        return self.name or self.address

    @property
    def address(self) -> str:
        """Group and port, in the usual form."""
        return f"[{self.group}]:{self.port}" if self.version == 6 else f"{self.group}:{self.port}"

    @property
    def version(self) -> int:
        """The version of IP: 4 or 6."""
        return 6 if ":" in self.group else 4

    @property
    def datagram_max(self) -> int:
        """The longest datagram that can be sent at all."""
        return UDP_BYTES_MAX if self.version == 4 else UDP_BYTES_MAX - 20

    @property
    def fill_bytes(self) -> int:
        """The size that a datagram of several messages is filled up to."""
        return self.datagram_bytes or ETHERNET_BYTES - HEAD_BYTES[self.version]

    @property
    def packing_bytes(self) -> int:
        """The size up to which the feed packs; 0 if each message has a datagram of its own."""
        return self.fill_bytes if self.packing else 0
