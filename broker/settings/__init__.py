"""Every setting: its name, its type, its limits, its default, and where its value came from."""
