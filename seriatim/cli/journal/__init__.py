"""`seriatim journal`: shows, exports and repairs a journal."""
