"""The process: sessions, sockets, settings, metrics, and the data plane joining the rooms."""
