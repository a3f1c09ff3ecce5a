"""The journal's storage: how it is opened, synced and trimmed; and files of sealed lines.

`opening` opens it at the start, `keeper` syncs it, deletes what is too old, and notices a full
disk. `member_store` refuses a store of a cluster's member. `sealed_lines` are lines of JSON with a
checksum.
"""
