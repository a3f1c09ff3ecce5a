"""Feeds: the numbered messages on UDP multicast, and the service for what was lost."""
