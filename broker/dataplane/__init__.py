"""The path of every message from a read event to the outboxes: plane, gate, connections, frames."""
