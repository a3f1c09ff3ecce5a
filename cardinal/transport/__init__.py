"""Cardinal Streams over Seriatim, by nats-py, and in files."""
