"""What all jobs need: a command line, a Spark session, and progress."""
