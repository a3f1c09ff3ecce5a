"""`seriatim bench`: measures a broker with publishers and subscribers of its own."""
