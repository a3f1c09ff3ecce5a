"""The path of every message from a read to the outboxes: plane, gate, connections, frames."""
