"""Messages, bytes, sizes and rates of a journal or an archive, by subject and time."""
