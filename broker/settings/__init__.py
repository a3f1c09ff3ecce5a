"""Every setting: name, type, limits, default, and where its value came from."""
