"""The feed: everything that has a number, by multicast.

from sequencer.feed.feed_codec import Codec      # how messages stand in datagrams; write your own
"""
