"""Batches of a cluster: stages on every member, promises, and rows that get numbers once."""
