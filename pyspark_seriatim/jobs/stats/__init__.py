"""The stats job: messages, bytes, sizes and rates of a journal or an archive."""
