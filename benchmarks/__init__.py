"""The benchmark: Seriatim and nats-server under the same load, alternating in one run."""
