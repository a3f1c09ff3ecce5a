"""The files of a member: its journal, and its knowledge of itself.

`store_log` shows the journal to the core of replication, `first_notes` begins the second log,
`membership` the member's id and the epoch it knows, `watermark_keeper` how much is committed, and
`committed_journal` the journal as clients may read it. `member_keeper` syncs them.
"""
