"""The settings of one feed: where its datagrams go, what stands in them, and who may ask again."""

import dataclasses
from dataclasses import dataclass

from seriatim.settings.setting import GIB, KIB, MIB, setting

ETHERNET_BYTES = 1500  # what nearly every network carries in one piece
UDP_BYTES_MAX = 65507  # IPv4's longest datagram
HEAD_BYTES = {4: 28, 6: 48}  # of IP and UDP together
PACKING_BYTES_MIN = 256
HEARTBEAT = 1.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSettings:
    """One multicast output."""

    name: str = setting(
        "",
        "text",
        "What the log and the metrics call it.",
        zero="empty: its group and port",
    )
    group: str = setting(
        dataclasses.MISSING,
        "group",
        "The multicast address to send to: 224.0.0.0 to 239.255.255.255, or of IPv6 ff00::/8."
        " Those that begin with 239, and ff15::, are for use within an organisation.",
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
        "The interface to send by: its name, or with IPv4 its address. Give it: the route to a"
        " multicast group is often the default route.",
        zero="empty: the one that the system's routes say",
    )
    ttl: int = setting(
        1,
        "count",
        "In how many networks a datagram may be heard, from router to router: only in its own by"
        " default, for multicast is easily heard further than one thinks.",
        bounds=(0, 255),
        zero="0: receivers on this machine only",
    )
    loop: bool = setting(
        True,
        "flag",
        "Whether receivers on this machine hear it too.",
    )
    send_buffer: int = setting(
        1 * MIB,
        "size",
        "What the system keeps of datagrams that the network has not taken yet. A burst of 1 MiB"
        " is 8 ms of 1 Gbit/s. What is granted above net.core.wmem_max needs root.",
        bounds=(4 * KIB, 1 * GIB),
    )
    subject: str = setting(
        ">",
        "pattern",
        "Which messages are sent: those whose subject this takes in. Everything by default.",
    )
    codec: str = setting(
        "netstring",
        "codec",
        "How messages stand in datagrams: netstring (as cquencer's), netstring-subject, binary,"
        " moldudp64, or a class of your own as package.module:Class. docs/multicast.md draws them.",
    )
    packing: bool = setting(
        False,
        "flag",
        "Whether a datagram holds as many of the messages that came together as it takes. Off by"
        " default, for cquencer's receivers expect one.",
    )
    datagram_bytes: int = setting(
        0,
        "size",
        "How far packing fills a datagram. By default what Ethernet carries in one piece; a longer"
        " message has a datagram of its own.",
        bounds=(0, UDP_BYTES_MAX),
        zero="0: 1472, and 1452 with IPv6",
    )
    segmentation: bool = setting(
        True,
        "flag",
        "Whether datagrams of one size may be handed to the system as one (UDP_SEGMENT), which is"
        " several times faster. What the network sees is the same; where it cannot be, it is not"
        " done.",
    )
    heartbeat: float = setting(
        HEARTBEAT,
        "duration",
        "After how long without a datagram a heartbeat says which number comes next, so that"
        " receivers miss the last ones too. A second is MoldUDP64's custom. The codec `netstring`"
        " cannot say it.",
        bounds=(0.0, 3600.0),
        zero="0: never",
    )
    rerequest_port: int = setting(
        0,
        "port",
        "The UDP port on which receivers of `moldudp64` ask again for what they missed. Off by"
        " default, for whoever reaches it may ask.",
        bounds=(-1, 65535),
        zero="0: off; -1: any free port",
    )
    rerequest_host: str = setting(
        "",
        "host",
        "The address on which they ask.",
        zero="empty: the broker's `host`",
    )
    rerequest_rate: int = setting(
        1 * MIB,
        "size",
        "How many bytes of answers one address gets in a second, a quarter of it at once. So much"
        " can whoever forges its requests bring upon it: 1 MiB/s are 8 Mbit/s, and fetch some 2000"
        " short messages. Give more where networks lose more, and nobody forges.",
        bounds=(64 * KIB, 1 * GIB),
    )
    rerequest_total_rate: int = setting(
        16 * MIB,
        "size",
        "How many bytes of answers all of them get in a second together, so that the feed itself"
        " has room. 16 MiB/s are an eighth of 1 Gbit/s.",
        bounds=(64 * KIB, 16 * GIB),
    )
    rerequest_percent: int = setting(
        10,
        "count",
        "How much of a processor's time one address's re-requests take at most, in percent, so that"
        " whoever asks without end does not slow down the broker; all of them together take three"
        " times as much. A receiver that needs more than a tenth gets all it misses, but later:"
        " where networks lose so much, give more.",
        bounds=(1, 100),
    )

    @property
    def label(self) -> str:
        """What the log and the metrics call it."""
        return self.name or self.address

    @property
    def address(self) -> str:
        """Group and port, as one writes them."""
        return f"[{self.group}]:{self.port}" if self.version == 6 else f"{self.group}:{self.port}"

    @property
    def version(self) -> int:
        """4 or 6, of IP."""
        return 6 if ":" in self.group else 4

    @property
    def datagram_max(self) -> int:
        """The longest datagram that can be sent at all."""
        return UDP_BYTES_MAX if self.version == 4 else UDP_BYTES_MAX - 20

    @property
    def fill_bytes(self) -> int:
        """What a datagram of several messages is filled up to."""
        return self.datagram_bytes or ETHERNET_BYTES - HEAD_BYTES[self.version]

    @property
    def packing_bytes(self) -> int:
        """The same for the feed itself; 0 where each message has a datagram of its own."""
        return self.fill_bytes if self.packing else 0
