"""Monitoring over HTTP: nats-server's pages and Prometheus' metrics, on a thread of its own.

Imported only where a monitoring port is set: nothing here is in the memory of other brokers.
"""

import sys

# A broker without TLS keeps `ssl` out of its memory; prometheus_client cannot do without it.
if "ssl" in sys.modules and sys.modules["ssl"] is None:
    del sys.modules["ssl"]

from broker.monitor.monitor import Monitor

__all__ = ["Monitor"]
