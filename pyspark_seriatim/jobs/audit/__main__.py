"""`python -m pyspark_seriatim.jobs.audit`, and the file to give to spark-submit."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a file: Python looks for modules in its folder first, where other names are than meant.
    sys.path[:] = [one for one in sys.path if Path(one).resolve() != Path(__file__).parent]
    from pyspark_seriatim.jobs.audit.audit_job import audit
    from pyspark_seriatim.jobs.running.command import run

    sys.exit(run(audit))
