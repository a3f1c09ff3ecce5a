"""Links: connections between the members, which prove that they know the cluster's secret.

`member_links` dials and accepts, `member_connection` is one of them, `cluster_secret` its
handshake, and `member_tls` its TLS. What is said on it is `sequencer.replica.member_wire`.
"""
