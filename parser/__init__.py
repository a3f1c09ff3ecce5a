"""The wire: bytes of the NATS client protocol to operations, as spans of the receive buffer."""
