"""`seriatim context`: the named connections that the command line of NATS keeps, too."""
