"""The journal's storage: its directory, how it is opened, and when it is synced."""
