"""Runs the cardinal job: `python -m pyspark_seriatim.jobs.cardinal`, or by spark-submit."""

if __name__ == "__main__":
    from pyspark_seriatim.jobs.running.command import run_main

    run_main("cardinal")
