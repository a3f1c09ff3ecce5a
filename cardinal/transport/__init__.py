"""Cardinal Streams over Seriatim, by its own client, and in files."""
