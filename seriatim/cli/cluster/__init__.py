"""`seriatim cluster`: make a cluster of brokers, and see how it is."""
