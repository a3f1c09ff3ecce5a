"""Streams: JetStream's API over the one journal."""
