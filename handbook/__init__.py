"""The documentation as a site: its hooks for mkdocs, and the pages that are made from code."""
