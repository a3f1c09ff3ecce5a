"""`seriatim cluster`: make a cluster of brokers, show its status, and operate it."""
