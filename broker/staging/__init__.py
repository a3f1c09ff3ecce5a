"""Exactly-once publishing on a single broker: staged and committed batches (docs/staging.md).

`staging_service` answers requests (`operations_asked`), `stages` keeps pieces in files, `commits`
promises, `intents` are the promises on disk, `commit_publishing` numbers the rows, and `recovered`
carries on what an earlier process had promised. `applications` knows each one's last batch.
`shares` says how much each may take.
"""
