"""Cardinal Streams over Seriatim, by Seriatim's own client, and in files."""
