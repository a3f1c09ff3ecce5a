"""`seriatim record` and `seriatim play`."""
