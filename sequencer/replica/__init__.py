"""Fail-over: how the members of a cluster keep one order, without sockets, clocks or files."""
