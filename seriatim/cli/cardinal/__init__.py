"""`seriatim cardinal`: produce, consume and inspect Cardinal Streams."""
