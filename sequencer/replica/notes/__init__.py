"""The second log of a cluster: what its notes add up to, and how it is kept short."""
