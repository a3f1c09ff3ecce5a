"""The jobs that come with the source and the sink: each a command, and a file for spark-submit."""
