"""Runs the stats job: `python -m pyspark_seriatim.jobs.stats`, or the file for spark-submit."""

if __name__ == "__main__":
    from pyspark_seriatim.jobs.running.command import run_main

    run_main("stats")
