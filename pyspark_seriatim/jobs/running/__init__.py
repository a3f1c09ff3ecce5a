"""The common part of all jobs: a command line, a Spark session, and progress."""
