"""`seriatim stream`: the streams and consumers of a running broker, by JetStream's API."""
