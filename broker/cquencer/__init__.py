"""The port that speaks cquencer's protocol, in netstrings over TCP."""
