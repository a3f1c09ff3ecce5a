"""Cardinal Streams assembled into tables, one version of all of them at a time."""
