"""The fast half of `seriatim bench`: messages with stamps, counts of what came, and latencies."""
