"""`seriatim record`, `seriatim play` and `seriatim pcap`."""
