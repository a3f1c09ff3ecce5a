"""SIGHUP: settings are read again, and what can be changed in a running broker is changed."""
