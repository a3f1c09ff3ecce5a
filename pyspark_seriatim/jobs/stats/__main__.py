"""Runs the stats job: `python -m pyspark_seriatim.jobs.stats`, or the file for spark-submit."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a file, Python would look for modules in this folder first, and find the wrong ones.
    sys.path[:] = [one for one in sys.path if Path(one).resolve() != Path(__file__).parent]
    from pyspark_seriatim.jobs.running.command import run
    from pyspark_seriatim.jobs.stats.stats_job import stats

    sys.exit(run(stats))
