"""The one order: the number, and the frame that carries it."""
