"""`seriatim user`: the users of a broker, in a file of their own."""
