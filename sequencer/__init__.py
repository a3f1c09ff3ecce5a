"""The one total order: the numbers, the journal that keeps them, the feeds, and their replication.

`sequencer` gives the numbers, `message` says where a message's parts lie in a buffer. `journal/`
keeps them, `feed/` sends them, `replica/` keeps one order over several machines. `msgids` is the
window of Nats-Msg-Id; `netstring` reads frames, for any program; `token_bucket` limits a rate.
"""
