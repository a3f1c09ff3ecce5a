"""The settings of the listener for WebSocket, which browsers use."""

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import KIB, MIB, setting

FRAMES = ("same", "netstring", "header", "stamp", "none")


class WebSocketSettings(FrozenFields):
    """The listener for WebSocket clients, and the limits of what one of them may send."""

    port: int = setting(
        0,
        "port",
        "The port for WebSocket clients: browsers, and NATS clients given a ws:// or wss:// URL. It"
        " has TLS if the broker has (`tls`).",
        flags=("--websocket_port",),
        bounds=(-1, 65535),
        zero="0: off; -1: any free port",
        common=True,
    )
    host: str = setting(
        "",
        "host",
        "The address for WebSocket clients.",
        flags=("--websocket_host",),
        zero="empty: the same as `host`",
    )
    no_tls: bool = setting(
        False,
        "flag",
        "Serve WebSocket without TLS. Beyond loopback it must be chosen, as in nats-server: anyone"
        " who is on the way reads everything. Right behind a proxy that has TLS.",
        flags=("--websocket_no_tls",),
    )
    frame: str = setting(
        "same",
        "choice",
        "How messages carry their number for WebSocket clients. `same`: the broker's `frame`.",
        flags=("--websocket_frame",),
        choices=FRAMES,
    )
    same_origin: bool = setting(
        False,
        "flag",
        "Refuse a page of another host: the header `Origin` must name the host and port that the"
        " client asks for. Clients that are not browsers send no such header, and are let in.",
        flags=("--websocket_same_origin",),
    )
    allowed_origins: tuple[str, ...] = setting(
        (),
        "origins",
        "Refuse pages of all but these origins, such as https://app.example.com. Clients that are"
        " not browsers send no origin, and are let in: this protects users of browsers from other"
        " pages, not the broker from strangers.",
        flags=("--websocket_origins",),
        zero="empty: all pages",
    )
    handshake_timeout: float = setting(
        2.0,
        "duration",
        "How long the HTTP handshake may take, after that of TLS. NATS' default.",
        flags=("--websocket_handshake_timeout",),
        bounds=(0.01, 300.0),
    )
    max_frame: int = setting(
        8 * MIB,
        "size",
        "The largest frame accepted. A frame is kept until it is whole. Clients put what they have"
        " to send into one frame, which is more than one message but not much more.",
        flags=("--websocket_max_frame",),
        bounds=(1 * KIB, 128 * MIB),
    )
