"""`seriatim config --from nats.conf`: nats-server's configuration as a file for Seriatim.

`nats_syntax` reads nats-server's own format. `nats_blocks` knows each of its settings: which of
ours it is, or what to do instead; `nats_users` the same for accounts, users and permissions. They
fill a `translation`. `translated_file` writes it as TOML, and says what would keep a broker from
taking it.
"""
