"""The one total order: the numbers, the journal that keeps them, and the feeds."""
