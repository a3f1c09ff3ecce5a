"""Feeds: the numbered messages on UDP multicast, and re-requests for lost datagrams."""
