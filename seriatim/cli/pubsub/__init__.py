"""`seriatim pub` and `seriatim sub`."""
