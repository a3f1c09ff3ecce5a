"""`seriatim cluster`: make a cluster of brokers, see how it is, and operate it."""
