"""The audit job: checks in one pass that a range of numbers, or an archive, is complete."""
