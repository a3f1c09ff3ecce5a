"""Batches of a member: stages in files, their rows, and requests for them.

`member_staging` answers clients, `stage_files` keeps stages, `stage_rows` and `row_plane` publish
their rows, and `first_notes` takes over what a single broker had promised.
"""
