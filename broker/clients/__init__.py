"""One NATS client's conversation: its socket, CONNECT, PING, and what it asks of the broker."""
