"""Monitoring over HTTP: nats-server's pages and Prometheus metrics, on a thread of its own.

Imported only if a monitoring port is set, so that other brokers save the memory.
"""

import sys

# A broker without TLS does not load `ssl`, but prometheus_client needs it.
if "ssl" in sys.modules and sys.modules["ssl"] is None:
    del sys.modules["ssl"]

from broker.monitor.monitor import Monitor

__all__ = ["Monitor"]
