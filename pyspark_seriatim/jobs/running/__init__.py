"""What it takes to run any job: a command line, a Spark session, and how far it is."""
