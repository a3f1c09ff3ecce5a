"""`seriatim doctor`: examines a machine for a broker with given settings, and says what to do."""
