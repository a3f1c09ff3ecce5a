"""The wire protocol: parses the bytes a NATS client sends into operations."""
