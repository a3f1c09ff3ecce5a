"""The jobs besides the source and the sink: each is a command, and a file for spark-submit."""
