"""Monitoring over HTTP: nats-server's pages and Prometheus metrics, on a thread of its own.

This is imported only if a monitoring port is set: other brokers do not have it in memory.
"""

import sys

# A broker without TLS does not load `ssl`, but prometheus_client needs it.
if "ssl" in sys.modules and sys.modules["ssl"] is None:
    del sys.modules["ssl"]

from broker.monitor.monitor import Monitor

__all__ = ["Monitor"]
