"""Runs the bundle job: `python -m pyspark_seriatim.jobs.bundle`, or the file for spark-submit."""

if __name__ == "__main__":
    from pyspark_seriatim.jobs.running.command import run_main

    run_main("bundle")
