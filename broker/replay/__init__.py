"""Serving messages from the journal: replays, look-ups, bulk reads, and catch-up."""
