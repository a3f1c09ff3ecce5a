"""NATS clients: their sockets, CONNECT, PING, subscriptions and requests."""
