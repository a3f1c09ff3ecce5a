"""The port that speaks cquencer's own protocol, in netstrings over TCP."""
