"""Feeds: the numbered messages on UDP multicast, and re-requests for lost datagrams.

`feeds` starts and ends all of them; `outlet` is one, with its codec and heartbeats, and `multicast`
its socket. `rerequests` answers receivers. `fitting` knows the longest message a feed can carry.
"""
