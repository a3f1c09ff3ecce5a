"""What the journal needs of a disk: its directory, how it is opened, and when it is synced."""
