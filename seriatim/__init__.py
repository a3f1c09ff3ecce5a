"""Seriatim: a broker that gives every message one number in one total order."""
