"""How commands reach a broker: the options that they share, and what these mean."""
