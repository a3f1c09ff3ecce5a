"""Feeds: the numbered messages on UDP multicast, and re-requests for lost datagrams.

`feeds` starts and ends all of them, and knows the longest message that one can carry. `outlet` is
one, with its codec, socket and heartbeats. `rerequests` answers receivers.
"""
