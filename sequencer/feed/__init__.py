"""Feeds: every numbered message, sent by multicast.

from sequencer.feed.feed_codec import Codec      # the format of datagrams; write your own
"""
