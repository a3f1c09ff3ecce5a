"""`seriatim check`: validates a settings file, or checks a broker's health."""
