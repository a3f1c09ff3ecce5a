"""Messages that are served from the journal: replays, look-ups, bulk reads and catching up."""
