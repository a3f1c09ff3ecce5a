"""What the workers of one run (pytest-xdist) must not share."""

import os


def own(ports: range) -> range:
    """Those of the ports that no other worker of this run has."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return ports[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
