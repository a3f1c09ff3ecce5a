"""The second log of a cluster: the state that its notes give, and how it is kept short."""
