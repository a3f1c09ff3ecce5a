"""Runs the cardinal job: `python -m pyspark_seriatim.jobs.cardinal`, or by spark-submit."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a file, Python would look for modules in this folder first, and find the wrong ones.
    sys.path[:] = [one for one in sys.path if Path(one).resolve() != Path(__file__).parent]
    from pyspark_seriatim.jobs.cardinal.cardinal_job import cardinal
    from pyspark_seriatim.jobs.running.command import run

    sys.exit(run(cardinal))
