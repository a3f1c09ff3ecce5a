"""The settings of a member of a cluster: where etcd and the members are, and how long it waits."""

from seriatim.settings.frozen_fields import FrozenFields
from seriatim.settings.setting import GIB, MIB, setting

PORT = 6222
TLS_USES = ("auto", "on", "optional", "off")


class ClusterSettings(FrozenFields):
    """The cluster: several brokers with one order. Without a name it is a single broker."""

    name: str = setting(
        "",
        "name",
        "The cluster that this broker is a member of. Its members keep the same journal, and one"
        " of them gives the numbers. `seriatim cluster init` makes a cluster of one store.",
        flags=("--cluster_name", "--cluster"),
        zero="empty: none, the broker is alone",
        common=True,
    )
    etcd: tuple[str, ...] = setting(
        (),
        "endpoints",
        "The endpoints of etcd, which stores the cluster's members and its coordinator. Give all"
        " endpoints of one etcd: the next one is used when one fails.",
        flags=("--etcd",),
        common=True,
    )
    advertise: str = setting(
        "",
        "address",
        "The address that clients are told to reach this broker at.",
        flags=("--advertise",),
        zero="empty: `host` and `port`",
        common=True,
    )
    host: str = setting(
        "",
        "host",
        "The address to listen on for other members.",
        flags=("--cluster_host",),
        zero="empty: the same as `host`",
    )
    port: int = setting(
        PORT,
        "port",
        "The port to listen on for other members. nats-server uses 6222 for its clusters, too, but"
        " speaks another protocol there.",
        flags=("--cluster_port",),
        bounds=(-1, 65535),
        zero="-1: any free port",
    )
    member_advertise: str = setting(
        "",
        "address",
        "The address at which other members reach this one.",
        flags=("--cluster_advertise",),
        zero="empty: `cluster.host` and `cluster.port`; if that is all addresses, the host of"
        " `cluster.advertise`",
    )
    secret_file: str = setting(
        "",
        "text",
        "A file with a secret of 16 bytes or more, the same for all members, which prove to each"
        " other that they know it; inside TLS, if there is TLS: then a certificate alone does not"
        " make a member. Without TLS what they send afterwards is not encrypted, so the network"
        " between them must be private. `openssl rand -hex 32` makes one.",
        flags=("--cluster_secret",),
        zero="empty: none, which is allowed on loopback only",
        common=True,
    )
    tls: str = setting(
        "auto",
        "choice",
        "Whether members speak TLS with each other, with the certificate of `tls`. Both sides show"
        " it, and `tls.ca_file` must have signed it. It must be for the host of the member's"
        " `cluster.member_advertise`, and may be used by servers and by clients. `auto`: with both"
        " `tls.cert_file` and `tls.ca_file`. `optional`: TLS where the other member speaks it;"
        " only while a cluster that runs changes from plain connections to TLS, one member after"
        " the other, because who stands between two members can then prevent TLS.",
        flags=("--cluster_tls",),
        choices=TLS_USES,
    )
    min_in_sync: int = setting(
        2,
        "count",
        "How many members, at least, must have a message before anyone is shown it. With fewer"
        " members nothing is published. 2 by default: a message that was shown survives the loss"
        " of any one machine. A cluster that exists has the number it was made with.",
        flags=("--min_in_sync",),
        bounds=(1, 16),
    )
    slow: float = setting(
        1.0,
        "duration",
        "How long a member in sync may be silent at most before the coordinator goes on without it."
        " Until then publishers wait for it. A second is longer than a busy disk or a pause of the"
        " machine usually takes. A member that has always answered at once gets 0.4 s; one that"
        " was killed is noticed when its port refuses.",
        flags=("--cluster_slow",),
        bounds=(0.2, 60.0),
    )
    dead: float = setting(
        1.5,
        "duration",
        "How long the coordinator may be silent before another member takes over. Longer than"
        " `cluster.slow`: if only the link between two members fails, the coordinator goes on.",
        flags=("--cluster_dead",),
        bounds=(0.1, 120.0),
    )
    patience: float = setting(
        2.0,
        "duration",
        "How long publishers wait while nothing can be committed, before new messages are refused."
        " Longer than taking over lasts, so clients that live through it see only a pause.",
        flags=("--cluster_patience",),
        bounds=(0.1, 3600.0),
    )
    stranded: float = setting(
        10.0,
        "duration",
        "How long a member may be without a coordinator before it asks its clients to connect to"
        " another one.",
        flags=("--cluster_stranded",),
        bounds=(1.0, 3600.0),
    )
    window_bytes: int = setting(
        4 * MIB,
        "size",
        "How many bytes may be on the way to a member, and how many the coordinator numbers before"
        " they are committed; above it publishers are not read. More than a network of 10 Gbit/s"
        " holds, and little enough for the pulses that get in line behind it.",
        flags=("--cluster_window_bytes",),
        bounds=(1 * MIB, 1 * GIB),
    )
    etcd_user: str = setting(
        "",
        "text",
        "The user of etcd. It needs to read and write the keys that begin with `/seriatim/NAME/`.",
        flags=("--etcd_user",),
        zero="empty: etcd asks for none",
    )
    etcd_password_file: str = setting(
        "",
        "text",
        "The file with the password of `cluster.etcd_user`. It is read at each login, so it may be"
        " replaced.",
        flags=("--etcd_password_file",),
        zero="empty: none",
    )
    etcd_ca: str = setting(
        "",
        "text",
        "A file of PEM with the authority that vouches for etcd, with https.",
        flags=("--etcd_ca",),
        zero="empty: those that the system trusts",
    )
    etcd_cert: str = setting(
        "",
        "text",
        "A file of PEM with the certificate to show to etcd, with https.",
        flags=("--etcd_cert",),
        zero="empty: none",
    )
    etcd_key: str = setting(
        "",
        "text",
        "A file of PEM with the key of `cluster.etcd_cert`.",
        flags=("--etcd_key",),
        zero="empty: it is in the file of the certificate",
    )
