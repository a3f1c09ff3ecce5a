"""SIGHUP: settings are read again, and what can be changed in a running broker is changed.

`reloader` finds what has changed. `reloadable` has how each setting takes effect, or that it needs
a restart.
"""
