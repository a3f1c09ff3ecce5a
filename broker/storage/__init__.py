"""The journal's storage: how it is opened, synced and trimmed; and the second log.

`opening` opens the journal at the start, `keeper` syncs it, deletes what is too old, and notices a
full disk. `member_store` refuses a store of a cluster's member. `note_file` is the second log, for
small durable state, of `sealed_lines`: JSON with a checksum.
"""
