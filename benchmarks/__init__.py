"""The benchmark: Seriatim and nats-server under one load generator, in one run, alternating."""
