"""Exactly-once publishing: what is staged, committed, aborted, and known of applications."""
