"""Exactly-once publishing: staged and committed batches, and the known applications."""
