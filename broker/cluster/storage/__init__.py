"""What a member has on its disk: its journal, its notes, and what it knows of itself.

`store_log` shows the journal to the core of replication, `note_file` is the second log,
`membership` the member's id and the epoch it knows, `watermark_keeper` how much is committed, and
`committed_journal` the journal as clients may read it. `member_keeper` syncs them.
"""
